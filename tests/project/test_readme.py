"""The README's commands are true: each one runs in a test, or stands below with why it doesn't."""

import ast
import re
import shlex

import pytest
from workbench import ROOT, Workbench

# A command, as a regular expression -> the test that runs it. The test's existence is checked.
MAKEFILE = "tests/project/test_makefile.py"
RUN_IN_A_TEST = {
    r"make run( PROMPT=.*)?": f"{MAKEFILE}::test_a_prompt_is_only_text",
    r"make (test|test-fast|test-gpu( PY=python3)?|lab|status|build( CHECK=1)?)": (
        f"{MAKEFILE}::test_a_target_is_one_python_command"
    ),
    r"make doctor": "tests/project/test_doctor.py::test_on_this_machine_every_line_is_ok_or_a_note_"
    "and_the_exit_status_is_0",
    r"make": f"{MAKEFILE}::test_help_is_the_default_and_lists_every_target",
    r"make help": f"{MAKEFILE}::test_help_is_the_default_and_lists_every_target",
    r"make clean": f"{MAKEFILE}::test_clean_spares_chapters_and_the_virtual_environment",
    r"make (test|promote|reset)-chapter (\d+|N|all)( REF=1)?": (
        f"{MAKEFILE}::test_a_target_is_one_python_command"
    ),
    r"make setup TORCH_INDEX=\S+": (
        "tests/project/test_setup.py::test_torch_alone_comes_from_an_index_of_the_users_choice"
    ),
    r"make setup( EXTRAS=\S+)?": (
        "tests/project/test_setup.py::test_extras_are_added_and_remembered"
    ),
    r"make setup PYTHON=\S+": (
        "tests/project/test_setup.py::test_another_python_makes_the_virtual_environment_anew"
    ),
    r"(python -m )?tinyvllm doctor( --json)?": (
        "tests/project/test_doctor.py::test_json_says_the_same_as_one_object"
    ),
    r"(python -m )?tinyvllm generate": (
        "tests/engine/test_command_line.py::test_generate_continues_the_prompt_and_says_its_speed"
    ),
    r"(python -m )?tinyvllm chat": (
        "tests/engine/test_command_line.py::test_chat_talks_through_a_pipe"
    ),
    r"(python -m )?tinyvllm fetch": (
        "tests/hub/test_hub_downloads.py::test_quiet_prints_nothing_but_the_folder"
    ),
    r"(python -m )?tinyvllm bench decode": (
        "tests/engine/test_bench.py::test_decode_measures_both_engines_and_says_on_what"
    ),
    r"python -m tinyvllm course test \d+": (
        "tests/course/test_cli.py::test_untouched_chapters_are_not_done"
    ),
}
# Commands that no test runs, with why.
EXCEPTIONS = {
    r"python -m tinyvllm": "the beginning of commands, each of which stands here by itself",
    r"git diff tinyvllm": "git's own; tests/course/test_jupyterlab.py looks at its output",
    r"git clone (<this repository>|\S+)( \S+)?": (
        "needs a network and an address; .ci/run starts in a fresh clone"
    ),
    r"cd tinyvllm": "follows git clone",
    r"conda (env create -f environment(-cpu)?\.yml|activate tinyvllm)": (
        "conda is not on the machines that run the tests; test_requirements.py checks the files"
    ),
    r"sudo apt-get install .*": "changes the machine; .ci/run installs the same packages",
    r"bash \.ci/run|\.ci/run": "it runs these tests",
    r"make distclean": "removes the environment that runs the tests",
}

SHELL = {"sh", "bash", "shell", "console"}
COMMAND = re.compile(r"(make|python|python3|pip|tinyvllm|git|conda|sudo|sh|bash) |make$")


def commands(markdown: str) -> list[str]:
    """Commands in shell fences (each line; prompts and comments dropped), then those in `code`."""
    found, fence = [], None
    for line in markdown.splitlines():
        if match := re.match(r" *```(\w*)", line):
            fence = (match[1] or "none") if fence is None else None
        elif fence in SHELL:
            text = line.strip().removeprefix("$ ")
            text = re.sub(r"(^|  +)#.*", "", text)
            found += [part.strip() for part in text.split("&&") if part.strip()]
        elif fence is None:
            found += [code for code in re.findall(r"`([^`]+)`", line) if COMMAND.match(code)]
    return found


README = (ROOT / "README.md").read_text()


def test_commands_are_found_in_fences_and_in_prose():
    text = """
Type `make lab`, see `tinyvllm/ops`.
```sh
# a comment
$ make run PROMPT="a # b"   # another
cd x && make test
```
```python
make = 1
```
"""
    expected = ["make lab", 'make run PROMPT="a # b"', "cd x", "make test"]
    assert commands(text) == expected


def test_the_readme_opens_with_the_two_commands():
    first = [command for command in commands(README) if command.startswith("make")][:2]
    assert [command.split(" PROMPT=")[0] for command in first] == ["make run", "make test"]


@pytest.mark.parametrize("command", sorted(set(commands(README))))
def test_a_command_of_the_readme_runs_in_a_test_or_is_an_exception(command):
    known = [pattern for pattern in RUN_IN_A_TEST | EXCEPTIONS if re.fullmatch(pattern, command)]
    assert known, f"no test runs `{command}`: add one to RUN_IN_A_TEST, or say why in EXCEPTIONS"


@pytest.mark.parametrize("test", sorted(set(RUN_IN_A_TEST.values())))
def test_the_tests_named_above_exist(test):
    file, name = test.split("::")
    tree = ast.parse((ROOT / file).read_text())
    assert name in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


@pytest.mark.parametrize("command", sorted({c for c in commands(README) if c.split()[0] == "make"}))
def test_make_knows_every_target_of_the_readme(bench: Workbench, command):
    arguments = ["3" if word == "N" else word for word in shlex.split(command)[1:]]
    if not [a for a in arguments if a.startswith("PY=")]:
        arguments.append("PY=./recorder")
    done = bench.run("make", "--dry-run", *arguments)
    assert done.returncode == 0, done.stderr


def test_links_to_files_lead_somewhere():
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", README)
    assert [link for link in links if not (ROOT / link).exists()] == []
