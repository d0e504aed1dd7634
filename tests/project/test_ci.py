"""`.ci/run`: installs what a bare Debian machine lacks, then does what the README says."""

import shutil

import pytest
from test_setup import Machine
from workbench import ROOT

INSTALL = "apt-get install -y -q --no-install-recommends"


@pytest.fixture
def machine(tmp_path) -> Machine:
    """A machine that has everything; each of these programs writes down its calls."""
    machine = Machine(tmp_path)
    machine.has_python()
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    machine.program("bin/head", f'#!/bin/sh\nexec {shutil.which("head")} "$@"\n')
    machine.has("id", "echo 0")
    machine.has("nproc", "echo 3")
    for name in ("git", "c++", "chromium", "apt-get"):
        machine.has(name, f'echo "{name} $*" >>calls')
    machine.has("make", 'echo "make $* CI=$CI OMP=$OMP_NUM_THREADS" >>calls')
    machine.program(".venv/bin/python", "#!/bin/sh\necho some-version\n")
    return machine


def ci(machine: Machine):
    return machine.run(shutil.which("bash"), ".ci/run")


def work(machine: Machine) -> list[str]:
    """What was called, without the questions for versions."""
    return [call for call in machine.done() if "--version" not in call]


def test_a_complete_machine_sets_up_and_tests_and_installs_nothing(machine: Machine):
    done = ci(machine)
    assert done.returncode == 0, done.stderr
    assert work(machine) == ["make setup CI=true OMP=3", "make test CI=true OMP=3"]


@pytest.mark.parametrize(
    ("lacks", "packages"), [("chromium", "chromium fonts-dejavu-core"), ("git", "git")]
)
def test_what_is_missing_is_installed_first(machine: Machine, lacks, packages):
    (machine.folder / "bin" / lacks).unlink()
    assert ci(machine).returncode == 0
    assert work(machine)[:2] == ["apt-get update -q", f"{INSTALL} {packages}"]
    assert work(machine)[-1].startswith("make test")


def test_a_machine_without_a_fitting_python_gets_one(machine: Machine):
    machine.has_python("python3", "3.12", venv=False)
    ci(machine)
    assert work(machine)[1] == f"{INSTALL} python3 python3-venv make g++"


def test_who_is_not_root_installs_with_sudo(machine: Machine):
    (machine.folder / "bin/git").unlink()
    machine.has("id", "echo 1000")
    machine.has("sudo", 'echo "sudo $*" >>calls')
    ci(machine)
    assert work(machine)[1] == f"sudo {INSTALL} git"


@pytest.mark.parametrize("failing", ["setup", "test"])
def test_a_failure_is_the_failure_of_the_run(machine: Machine, failing):
    machine.has("make", f'[ "$1" != {failing} ]')
    assert ci(machine).returncode == 1


def test_it_can_be_started_from_any_folder(machine: Machine):
    (machine.folder / "elsewhere").mkdir()
    done = machine.run("sh", "-c", f"cd elsewhere && exec {shutil.which('bash')} ../.ci/run")
    assert done.returncode == 0, done.stderr
    assert work(machine)[-1].startswith("make test")
