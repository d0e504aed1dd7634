"""The command line: what it prints, where, and its exit codes."""

import os
import subprocess
import sys

import pytest

from tinyvllm import cli
from tinyvllm.chat import Chat


def run(argv, capsys):
    code = cli.main(argv)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_generate_continues_the_prompt_and_says_its_speed(default_model_dir, capsys):
    argv = ["generate", "The capital of France is", "--max-tokens", "2", "--device", "cpu"]
    code, out, err = run([*argv, "--model", str(default_model_dir)], capsys)
    assert (code, out) == (0, "The capital of France is Paris.\n")
    assert "[2 tokens" in err and "tokens/s" in err and "finish_reason: length" in err


def test_one_line_says_which_modules_are_a_students(tiny_folder, tmp_path, monkeypatch, capsys):
    argv = ["generate", "Hello", "--max-tokens", "1", "--device", "cpu"]
    argv += ["--model", str(tiny_folder)]
    (tmp_path / "ops").mkdir()
    monkeypatch.setattr("tinyvllm.engine.llm_engine.PACKAGE", tmp_path)
    (tmp_path / "ops" / "gemm.py").write_text("# Promoted from solutions/06_gemm.md: …\n")
    assert "your code" not in run(argv, capsys)[2]
    (tmp_path / "ops" / "rope.py").write_text("# Your code, from chapters/05_rope.ipynb. Back …\n")
    assert "Running on your code: ops/rope.py.\n" in run(argv, capsys)[2]


@pytest.mark.slow
def test_run_answers_the_prompt_of_the_environment_in_a_process_of_its_own():
    question = 'What is the capital of France? Answer: "$HOME `true`"\nIn one word.'
    done = subprocess.run(
        [sys.executable, "-m", "tinyvllm", "run", "--device", "cpu"],
        env=os.environ | {"PROMPT": question},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert f"> {question}\n" in done.stdout
    assert "Paris" in done.stdout.split(question)[1]
    assert "tokens/s" in done.stderr
    assert done.stdout.rstrip().endswith("make lab")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["generate", ""], "The prompt is empty"),
        (["generate", "x", "--max-model-len", "1"], "at least 2"),
        (["generate", "x", "--temperature", "-1"], "temperature must be at least 0"),
        (["generate", "x", "--model", "/nowhere/at/all"], "/nowhere/at/all"),
    ],
)
def test_a_mistake_is_one_sentence_and_code_1(argv, words, capsys, default_model_dir):
    code, _, err = run(argv, capsys)
    assert code == 1
    assert words in err and "Traceback" not in err
    assert err.splitlines()[-1].startswith("tinyvllm: ")


@pytest.mark.parametrize("argv", [[], ["nonsense"], ["generate"], ["bench", "nonsense"]])
def test_a_wrong_command_is_code_2(argv, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(argv)
    assert stopped.value.code == 2


def test_help_lists_every_command(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    out = capsys.readouterr().out
    for name in ("run", "generate", "chat", "fetch", "doctor", "lab", "bench", "course"):
        assert f"\n    {name} " in out


class Script:
    """Stands in for the keyboard and the model."""

    def __init__(self, monkeypatch, lines, answers):
        self.seen = []
        self._answers = iter(answers)
        inputs = iter(lines)

        def fake_input(prompt):
            line = next(inputs, EOFError)
            if isinstance(line, str):
                return line
            raise line

        monkeypatch.setattr("builtins.input", fake_input)

    def answer(self, llm, messages):
        self.seen.append([m["content"] for m in messages])
        answer = next(self._answers)
        if isinstance(answer, str):
            return answer
        raise answer


def chat(monkeypatch, lines, answers):
    script = Script(monkeypatch, lines, answers)
    assert Chat(None, script.answer).loop() == 0
    return script.seen


def test_chat_remembers_until_reset(monkeypatch, capsys):
    seen = chat(monkeypatch, ["a", "b", "/reset", "c"], ["A", "B", "C"])
    assert seen == [["a"], ["a", "A", "b"], ["c"]]


def test_ctrl_c_stops_the_answer_and_not_the_program(monkeypatch, capsys):
    seen = chat(monkeypatch, ["a", "b", "c"], ["A", KeyboardInterrupt, "C"])
    assert seen == [["a"], ["a", "A", "b"], ["a", "A", "c"]]
    assert "stopped" in capsys.readouterr().out


def test_ctrl_c_at_the_prompt_says_how_to_leave(monkeypatch, capsys):
    assert chat(monkeypatch, [KeyboardInterrupt, "a", "/exit", "b"], ["A"]) == [["a"]]
    assert "Ctrl-D leaves" in capsys.readouterr().out


def test_a_conversation_that_grew_too_long_says_how_to_go_on(monkeypatch, capsys):
    error = ValueError("The prompt has 9000 tokens.")
    seen = chat(monkeypatch, ["a", "b"], [error, "B"])
    assert seen == [["a"], ["b"]]
    assert "9000 tokens. (/reset" in capsys.readouterr().out


def test_an_unknown_slash_command_is_not_sent_to_the_model(monkeypatch, capsys):
    assert chat(monkeypatch, ["/rset", "", "a"], ["A"]) == [["a"]]


@pytest.mark.slow
def test_chat_talks_through_a_pipe():
    done = subprocess.run(
        [sys.executable, "-m", "tinyvllm", "chat", "--device", "cpu", "--max-tokens", "20"],
        input="What is the capital of France?\n/reset\n/exit\n",
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "The capital of France is Paris." in done.stdout
    assert "starts again" in done.stdout
