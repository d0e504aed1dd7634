"""The Makefile: what each target runs, chapter numbers as arguments, a prompt that is only text."""

import os
import re
import time
from pathlib import Path

import pytest
from workbench import ROOT, Workbench

MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE)

COMMANDS = {
    ("run",): "-m tinyvllm run",
    ("lab",): "-m tinyvllm lab",
    ("doctor", "ARGS=--json"): "-m tinyvllm doctor --json",
    ("status",): "-m tinyvllm course status",
    ("build",): "-m tinyvllm course build",
    ("build", "CHECK=1"): "-m tinyvllm course build --check",
    ("test",): "-m pytest -n 2 --dist worksteal -m not gpu",
    ("test-fast",): "-m pytest -m not slow and not browser and not gpu",
    ("test-gpu",): "-m pytest -m gpu tests/engine tests/cuda tests/project/test_doctor.py",
    ("test-chapter", "3"): "-m tinyvllm course test 3",
    ("test-chapter", "3", "REF=1"): "-m tinyvllm course test 3 --ref",
    ("promote-chapter", "3"): "-m tinyvllm course promote 3",
    ("reset-chapter", "all"): "-m tinyvllm course reset all",
}


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_target_is_one_python_command(bench: Workbench, arguments):
    done = bench.make(*arguments)
    assert done.returncode == 0, done.stderr
    assert bench.commands() == [COMMANDS[arguments]]


@pytest.mark.parametrize(
    ("arguments", "numbers"),
    [
        (["3"], "3"),
        (["03"], "03"),
        (["N=3"], "3"),
        (["03", "N=4"], "4"),
        (["3", "4"], "3 4"),
        (["3-5"], "3-5"),
        (["all"], "all"),
        (["-j4", "3"], "3"),
    ],
    ids=" ".join,
)
def test_a_chapter_target_takes_numbers_as_make_never_does(bench: Workbench, arguments, numbers):
    done = bench.make("test-chapter", *arguments)
    assert done.returncode == 0, done.stderr
    assert bench.commands() == [f"-m tinyvllm course test {numbers}"]
    assert "Nothing to be done" not in done.stdout


def test_a_number_in_the_environment_counts_unless_one_is_typed(bench: Workbench):
    bench.make("test-chapter", N="5")
    bench.make("test-chapter", "3", N="5")
    assert bench.commands() == ["-m tinyvllm course test 5", "-m tinyvllm course test 3"]


def test_a_file_or_folder_with_the_name_of_a_chapter_is_no_obstacle(bench: Workbench):
    (bench.folder / "3").write_text("")
    (bench.folder / "04").mkdir()
    done = bench.make("test-chapter", "3", "04")
    assert (done.returncode, bench.commands()) == (0, ["-m tinyvllm course test 3 04"])
    assert "up to date" not in done.stdout


@pytest.mark.parametrize("target", ["test-chapter", "promote-chapter", "reset-chapter"])
def test_a_chapter_target_without_a_number_asks_for_one(bench: Workbench, target):
    done = bench.make(target)
    assert done.returncode == 2
    assert f"which chapter? Try: make {target} 3" in done.stderr
    assert bench.calls() == []


@pytest.mark.parametrize("arguments", [["tset"], ["5"], ["test", "5"], ["tset-chapter", "3"]])
def test_a_typo_fails(bench: Workbench, arguments):
    done = bench.make(*arguments)
    assert done.returncode == 2
    assert "No rule to make target" in done.stderr


def test_the_exit_status_of_the_command_is_not_lost(bench: Workbench):
    bench.program("recorder", "#!/bin/sh\nexit 7\n")
    assert bench.make("test").returncode == 2


PROMPTS = [
    "What is the capital of France?",
    """both "double" and 'single' quotes""",
    "it costs $5, or $$5, or $HOME, or ${HOME}, or $(HOME), or $(",
    "$(shell touch made-by-make) `touch made-by-a-shell` $(touch made-by-a-shell)",
    "two\nlines, and a \\ backslash \\",
    "; touch made-by-a-shell; # no comment & nothing * else",
    "  é 中 🙂 %s -n",
]


@pytest.mark.parametrize("prompt", PROMPTS, ids=range(len(PROMPTS)))
def test_a_prompt_is_only_text(bench: Workbench, prompt):
    done = bench.make("run", f"PROMPT={prompt}")
    assert done.returncode == 0, done.stderr
    (call,) = bench.calls()
    assert call["argv"] == ["-m", "tinyvllm", "run"]
    # make itself drops spaces before the value of a variable
    assert call["env"]["PROMPT"] == prompt.lstrip(" ")
    assert not list(bench.folder.glob("made-by-*"))


@pytest.mark.parametrize("prompt", PROMPTS, ids=range(len(PROMPTS)))
def test_a_prompt_from_the_environment_is_only_text_too(bench: Workbench, prompt):
    bench.make("run", PROMPT=prompt)
    (call,) = bench.calls()
    assert call["env"]["PROMPT"] == prompt
    assert not list(bench.folder.glob("made-by-*"))


def test_without_a_prompt_none_is_set(bench: Workbench):
    bench.make("run")
    assert "PROMPT" not in bench.calls()[0]["env"]


def test_help_is_the_default_and_lists_every_target(bench: Workbench):
    done = bench.make()
    assert done.stdout == bench.make("help").stdout
    listed = re.findall(r"^  make (\S+) +\S", done.stdout, re.MULTILINE)
    assert sorted(listed) == sorted(TARGETS)
    assert all(len(line) <= 110 for line in done.stdout.splitlines())


def test_no_target_is_called_all():
    assert "all" not in TARGETS


def test_every_target_is_phony():
    phony = " ".join(re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)).split()
    assert set(TARGETS) <= set(phony)


@pytest.mark.parametrize(
    "construct", [".ONESHELL", ".RECIPEPREFIX", "!=", "$(file", "undefine", "private", "&:"]
)
def test_nothing_is_used_that_make_3_81_lacks(construct):
    assert construct not in MAKEFILE


def test_clean_spares_chapters_and_the_virtual_environment(bench: Workbench):
    keep = ["chapters/03_rope.ipynb", ".venv/lib/__pycache__/x.pyc", "tinyvllm/rope.py"]
    drop = ["build/x", "dist/x", ".pytest_cache/x", "tinyvllm/__pycache__/x.pyc"]
    drop += ["chapters/.ipynb_checkpoints/03_rope-checkpoint.ipynb"]
    for name in keep + drop:
        bench.program(name, "")
    assert bench.make("clean").returncode == 0
    assert [name for name in keep if not (bench.folder / name).exists()] == []
    assert [name for name in drop if (bench.folder / name).exists()] == []


# --- when the set-up runs ---


@pytest.fixture
def fresh(bench: Workbench) -> Workbench:
    """A checkout without .venv, in which the set-up script only leaves what the real one leaves."""
    bench.program(
        "scripts/setup.sh",
        """echo "${EXTRAS:-},${TORCH_INDEX:-},${PYTHON:-}" >>setups
        mkdir -p .venv/bin && cp recorder .venv/bin/python && touch .venv/.ready\n""",
    )
    return bench


def setups(bench: Workbench) -> list[str]:
    path = bench.folder / "setups"
    return path.read_text().splitlines() if path.exists() else []


def test_the_first_target_sets_up_and_the_next_one_does_not(fresh: Workbench):
    assert fresh.run("make", "run").returncode == 0
    assert fresh.run("make", "test").returncode == 0
    assert fresh.run("make", "setup").returncode == 0
    assert len(setups(fresh)) == 1
    assert len(fresh.calls()) == 2


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_a_changed_requirement_sets_up_again(fresh: Workbench, name):
    fresh.run("make", "setup")
    later = time.time() + 10
    os.utime(fresh.folder / name, (later, later))
    fresh.run("make", "run")
    assert len(setups(fresh)) == 2


@pytest.mark.parametrize(
    ("option", "seen"),
    [
        ("EXTRAS=gpu", "gpu,,"),
        ("TORCH_INDEX=file:///x", ",file:///x,"),
        ("PYTHON=python3.12", ",,python3.12"),
    ],
)
def test_an_option_sets_up_again_and_reaches_the_script(fresh: Workbench, option, seen):
    fresh.run("make", "setup")
    fresh.run("make", "setup", option)
    assert setups(fresh) == [",,", seen]


def test_an_option_in_the_environment_does_not_set_up_again_and_again(fresh: Workbench):
    for _ in range(2):
        fresh.run("make", "run", EXTRAS="gpu")
    assert setups(fresh) == ["gpu,,"]


def test_a_python_of_your_own_is_never_set_up(fresh: Workbench):
    fresh.make("test-gpu")
    assert setups(fresh) == []
    assert len(fresh.calls()) == 1


def test_a_failed_set_up_stops_make(fresh: Workbench):
    fresh.program("scripts/setup.sh", "echo no >&2; exit 1\n")
    done = fresh.run("make", "run")
    assert done.returncode == 2
    assert not Path(fresh.folder, ".venv").exists()
