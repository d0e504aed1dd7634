"""Asks NVIDIA's compute-sanitizer about every kernel of the corpus.

    python3 tests/cuda/check/sanitize.py OUT.json

Needs a GPU, CuPy and compute-sanitizer on PATH; about two minutes. OUT.json is the fixture that
test_compute_sanitizer.py compares with (compute_sanitizer.json). At the end it prints where the
verdicts differ from what the corpus says.

A fault that memcheck or synccheck finds ends its process, so those kernels have one each; the
others share one a tool.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from check_corpus import ALL, CORRECT, FAULTY, KERNELS, Array, Case, as_float

PACKAGE = Path(__file__).parents[3] / "tinyvllm"
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
ALONE = ("memcheck", "synccheck")
SECONDS = 75  # for one process; a deadlock on the GPU is ended after that
PARALLEL = 6


# ---- in the process that the tool watches ----


def launch(cases: list[Case]) -> None:
    """Runs kernels one after another; says whether a correct one's result is right."""
    import cupy

    cupy.cuda.set_allocator(None)  # each array an allocation of its own, of its exact size
    modules: dict[str, object] = {}
    for case in cases:
        if case.file not in modules:
            modules[case.file] = compiled(cupy, case.file)
        held = [cupy.asarray(a.values) if isinstance(a, Array) else a for a in case.args]
        args = [_argument(a) for a in held]
        block = case.block
        print(f"@launch {case.kernel}", flush=True)
        try:
            modules[case.file].get_function(case.kernel)(
                case.grid, block, tuple(args), shared_mem=case.shared_mem
            )
            cupy.cuda.runtime.deviceSynchronize()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            print(f"@error {case.kernel} {error}", flush=True)
            return
        if case.expected:
            given = [a.values if isinstance(a, Array) else a for a in case.args]
            result, expected = cupy.asnumpy(held[0]), case.expected(*given)
            if case.args[0].dtype == "bf16":
                result, expected = as_float(result), as_float(expected)
            right = np.allclose(result, expected, rtol=1e-5, atol=1e-6)
            print(f"@result {case.kernel} {'right' if right else 'wrong'}", flush=True)


def compiled(cupy, file: str):
    """A file of the corpus through NVRTC; CuPy keeps the result on disk."""
    text = (PACKAGE / "cuda" / "device_prelude.h").read_text()
    code = f'{text}\n#line 1 "{file}"\n{(KERNELS / file).read_text()}'
    options = ("--std=c++17", "-lineinfo", f"-I{PACKAGE / 'kernels'}")
    return cupy.RawModule(code=code, backend="nvrtc", options=options)


def _argument(value: object) -> object:
    if value is None:
        return np.uint64(0)
    return np.int32(value) if isinstance(value, int) else value


# ---- in the process that starts them ----


def watched(tool: str, cases: list[Case]) -> tuple[str, list[Case], str, bool]:
    """The output of a tool over some kernels, and whether time ran out."""
    command = [sys.executable, __file__, "--launch", *(c.kernel for c in cases)]
    if tool:
        command = ["compute-sanitizer", "--tool", tool, *command]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        return tool, cases, process.communicate(timeout=SECONDS)[0], False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return tool, cases, process.communicate()[0] or "", True


def reports(output: str) -> list[str]:
    """The tool's reports: each begins with a line that is not indented behind `=========`."""
    found: list[str] = []
    for line in output.split("\n"):
        if not line.startswith("========="):
            continue
        text = line[9:]
        if text.startswith(" ") and not text.startswith("  ") and text.strip():
            found.append(text.strip())
        elif found and text.strip():
            found[-1] += "\n" + text.strip()
    return [
        r
        for r in found
        if not re.match(r"COMPUTE-SANITIZER|ERROR SUMMARY|RACECHECK SUMMARY|Target", r)
    ]


def verdicts(tool: str, cases: list[Case], output: str, late: bool) -> dict[str, dict]:
    """For each kernel whether the tool has found something, and its first words."""
    launched = re.findall(r"^@launch (\w+)", output, re.M)
    found: dict[str, dict] = {}
    for case in cases:
        of_kernel = [r for r in reports(output) if re.search(rf"\b{case.kernel}\b", r)]
        words = sorted({re.sub(r"0x[0-9a-f]+", "0x..", r.split("\n")[0]) for r in of_kernel})
        lines = sorted({int(n) for r in of_kernel for n in re.findall(rf"{case.file}:(\d+)", r)})
        found[case.kernel] = {"found": bool(of_kernel), "words": words[:3], "lines": lines}
        if case.kernel not in launched:
            found[case.kernel]["not_run"] = True
        if late and launched and launched[-1] == case.kernel:
            found[case.kernel]["timeout"] = True
    return found


def jobs() -> list[tuple[str, list[Case]]]:
    work: list[tuple[str, list[Case]]] = [("", CORRECT)] + [(tool, CORRECT) for tool in TOOLS]
    together = defaultdict(list)
    for case in FAULTY:
        if case.hangs or not case.tool:
            continue
        if case.tool in ALONE:
            work.append((case.tool, [case]))
        else:
            together[case.tool].append(case)
    return work + list(together.items())


def main(out: str) -> None:
    import cupy

    for file in sorted({c.file for c in ALL}):
        compiled(cupy, file).compile()
    with ThreadPoolExecutor(PARALLEL) as pool:
        answers = list(pool.map(lambda job: watched(*job), jobs()))
    kernels: dict[str, dict] = defaultdict(dict)
    for tool, cases, output, late in answers:
        if tool:
            for name, verdict in verdicts(tool, cases, output, late).items():
                kernels[name][tool] = verdict
        else:
            for name, result in re.findall(r"^@result (\w+) (\w+)", output, re.M):
                kernels[name]["result"] = result
    version = subprocess.run(
        ["compute-sanitizer", "--version"], capture_output=True, text=True
    ).stdout
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    fixture = {
        "device": properties["name"].decode(),
        "compute_sanitizer": (re.findall(r"\d+\.\d+[.\d]*", version) or [""])[0],
        "kernels": {c.kernel: kernels[c.kernel] for c in ALL if c.kernel in kernels},
    }
    Path(out).write_text(json.dumps(fixture, indent=1) + "\n")
    _summary(fixture["kernels"], answers)


def _summary(kernels: dict[str, dict], answers: list) -> None:
    outputs = {(tool, cases[0].kernel): output for tool, cases, output, _ in answers}
    for case in FAULTY:
        verdict = kernels.get(case.kernel, {}).get(case.tool)
        if verdict and (verdict["found"] == bool(case.missed) or "not_run" in verdict):
            print(
                f"differs: {case.kernel}: {case.tool} {verdict}; the corpus says "
                f"missed={case.missed!r}"
            )
            alone = outputs.get((case.tool, case.kernel))
            if alone:
                print("    " + alone[-700:].replace("\n", "\n    "))
    for case in CORRECT:
        for tool in TOOLS:
            verdict = kernels.get(case.kernel, {}).get(tool, {})
            accused = tool == "racecheck" and bool(case.accused)
            if verdict.get("found", True) != accused or "not_run" in verdict:
                print(f"differs: {case.kernel} is correct: {tool} {verdict}")
        if kernels.get(case.kernel, {}).get("result") != "right":
            print(f"differs: {case.kernel}: result {kernels.get(case.kernel, {}).get('result')}")
    print(f"{len(kernels)} kernels, {len(answers)} processes")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--launch"]:
        by_name = {c.kernel: c for c in ALL}
        launch([by_name[name] for name in sys.argv[2:]])
    elif len(sys.argv) == 2:
        main(sys.argv[1])
    else:
        sys.exit(__doc__)
