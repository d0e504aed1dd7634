"""The set-up scripts: what is missing is named, and pip is called with the right words."""

import os
import shutil
import subprocess

import pytest
from workbench import Workbench

TOOLS = ["sh", "cat", "cp", "dirname", "mkdir", "paste", "rm", "sed", "sort", "touch", "tr", "grep"]

PYTHON = """\
#!/bin/sh
case "$*" in
*ensurepip*) exit {no_venv} ;;
*'%d.%d'*) echo {version} ;;
*sys.version_info*) echo "{version}" | tr . ' ' ;;
*-m\\ venv*) mkdir -p .venv/bin; echo "venv $*" >>calls; cp {venv_python} .venv/bin/python ;;
*) exit 1 ;;
esac
"""

VENV_PYTHON = """\
#!/bin/sh
case "$*" in
*torch.version.cuda*) echo {torch_cuda} ;;
*sys.version_info*) echo "3 12" ;;
*pip*--version*) ;;
*) echo "$*" >>calls; exit {pip_status} ;;
esac
"""


class Machine(Workbench):
    """A computer that has only what a test puts on its PATH."""

    def __init__(self, folder):
        super().__init__(folder)
        for name in TOOLS:
            self.program(f"bin/{name}", f'#!/bin/sh\nexec {shutil.which(name)} "$@"\n')
        self.environment["PATH"] = str(folder / "bin")
        self.has("uname", "echo Linux")

    def has(self, name: str, body: str = "exit 0") -> None:
        self.program(f"bin/{name}", f"#!/bin/sh\n{body}\n")

    def has_python(self, name="python3", version="3.12", venv=True) -> None:
        venv_python = self.folder / "venv-python"
        text = PYTHON.format(version=version, no_venv=0 if venv else 1, venv_python=venv_python)
        self.program(f"bin/{name}", text)

    def venv_python(self, torch_cuda="no", pip_status=0) -> None:
        text = VENV_PYTHON.format(torch_cuda=torch_cuda, pip_status=pip_status)
        self.program("venv-python", text)

    def check(self, **environment) -> subprocess.CompletedProcess:
        return self.run("/bin/sh", "scripts/check-system.sh", **environment)

    def set_up(self, **environment) -> subprocess.CompletedProcess:
        return self.run("/bin/sh", "scripts/setup.sh", **environment)

    def done(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def machine(tmp_path) -> Machine:
    """A Debian machine with Python 3.12, make and g++."""
    machine = Machine(tmp_path)
    machine.has_python()
    machine.venv_python()
    for name in ("make", "c++", "apt-get"):
        machine.has(name)
    return machine


# --- scripts/check-system.sh ---


def test_a_complete_machine_gets_its_python_printed(machine: Machine):
    done = machine.check()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{machine.folder}/bin/python3\n"


def test_the_newest_supported_python_is_taken(machine: Machine):
    machine.has_python("python3.11", "3.11")
    machine.has_python("python3.13", "3.13")
    assert machine.check().stdout.endswith("/bin/python3.13\n")


def test_a_python_that_does_not_start_is_passed_over(machine: Machine):
    machine.has("python3.13", "echo 'pyenv: python3.13: command not found' >&2; exit 127")
    assert machine.check().stdout.endswith("/bin/python3\n")


def test_a_python_without_venv_is_passed_over_if_another_has_it(machine: Machine):
    machine.has_python("python3.13", "3.13", venv=False)
    assert machine.check().stdout.endswith("/bin/python3\n")


def test_python_can_be_named(machine: Machine):
    machine.has_python("python3.13", "3.13")
    machine.has_python("my python", "3.11")
    path = str(machine.folder / "bin/my python")
    assert machine.check(PYTHON=path).stdout == f"{path}\n"


@pytest.mark.parametrize("version", ["2.7", "3.10", "3.14", "3.110"])
def test_a_python_of_another_version_is_refused_and_its_version_said(machine: Machine, version):
    machine.has_python("python3", version)
    done = machine.check()
    assert (done.returncode, done.stdout) == (1, "")
    assert f"Python 3.11, 3.12 or 3.13 (python3 is {version})" in done.stderr
    assert "sudo apt-get install -y python3 python3-venv" in done.stderr


@pytest.mark.parametrize("name", ["/no/such/python", "python3.9"])
def test_a_named_python_that_does_not_fit_is_never_replaced_by_another(machine: Machine, name):
    machine.has_python("python3.9", "3.9")
    done = machine.check(PYTHON=name)
    assert done.returncode == 1
    assert f"PYTHON={name}" in done.stderr


def test_missing_venv_is_named_with_its_package(machine: Machine):
    machine.has_python("python3", "3.12", venv=False)
    done = machine.check()
    assert done.returncode == 1
    assert "venv" in done.stderr
    assert "sudo apt-get install -y python3.12-venv" in done.stderr


def test_a_missing_compiler_is_named(machine: Machine):
    (machine.folder / "bin/c++").unlink()
    done = machine.check()
    assert done.returncode == 1
    assert "a C++ compiler" in done.stderr
    assert "sudo apt-get install -y g++\n" in done.stderr


def test_a_compiler_from_pypi_will_do(machine: Machine):
    (machine.folder / "bin/c++").unlink()
    assert machine.check(EXTRAS="compiler").returncode == 0


def test_a_compiler_can_be_named(machine: Machine):
    (machine.folder / "bin/c++").unlink()
    machine.has("my-compiler")
    assert machine.check(CXX="my-compiler").returncode == 0


def test_a_compiler_that_does_not_start_counts_as_missing(machine: Machine):
    machine.has("c++", "echo 'xcode-select: no developer tools' >&2; exit 1")
    assert machine.check().returncode == 1


def test_everything_that_is_missing_is_said_at_once(tmp_path):
    bare = Machine(tmp_path)
    bare.has("apt-get")
    done = bare.check()
    assert done.returncode == 1
    assert "sudo apt-get install -y python3 python3-venv g++ make\n" in done.stderr


def test_without_apt_no_apt_command_is_given(tmp_path):
    bare = Machine(tmp_path)
    assert "apt-get" not in bare.check().stderr
    bare.has("uname", "echo Darwin")
    assert "xcode-select --install" in bare.check().stderr


# --- scripts/setup.sh ---


def torch_pin(machine: Machine) -> str:
    lines = (machine.folder / "constraints.txt").read_text().splitlines()
    return next(line for line in lines if line.startswith("torch=="))


def test_set_up_installs_torch_then_the_package_at_the_pinned_versions(machine: Machine):
    done = machine.set_up()
    assert done.returncode == 0, done.stderr
    pip = "-m pip --disable-pip-version-check --no-input install -c constraints.txt"
    assert machine.done() == [
        "venv -m venv --clear .venv",
        f"{pip} {torch_pin(machine)}",
        f"{pip} -e .[lab,test]",
    ]
    assert (machine.folder / ".venv/.ready").exists()
    assert done.stdout.index("3 GB to download") < done.stdout.index("0.3 GB to download")


def test_torch_alone_comes_from_an_index_of_the_users_choice(machine: Machine):
    machine.set_up(TORCH_INDEX="file:///wheels of mine/cpu")
    _, torch, package = machine.done()
    assert torch.endswith(
        "install --force-reinstall --no-deps --index-url file:///wheels of mine/cpu "
        + torch_pin(machine)
    )
    assert "index" not in package


def test_pip_gets_the_users_pip_variables(machine: Machine):
    machine.program("venv-python", "#!/bin/sh\necho $PIP_INDEX_URL >>seen\n")
    machine.set_up(PIP_INDEX_URL="file:///mirror")
    assert set((machine.folder / "seen").read_text().split()) == {"file:///mirror"}


def test_extras_are_added_and_remembered(machine: Machine):
    machine.set_up(EXTRAS="compiler gpu")
    machine.set_up()
    wanted = "install -c constraints.txt -e .[lab,test,compiler,gpu]"
    assert [call.endswith(wanted) for call in machine.done() if " -e " in call] == [True, True]


@pytest.mark.parametrize(("torch_cuda", "extra"), [("12.8", "gpu"), ("13.0", "gpu13")])
def test_with_a_gpu_the_cupy_of_torchs_cuda_version_is_added_and_said(
    machine: Machine, torch_cuda, extra
):
    machine.has("nvidia-smi")
    machine.venv_python(torch_cuda)
    done = machine.set_up()
    assert f"EXTRAS={extra} " in done.stdout
    assert machine.done()[-1].endswith(f".[lab,test,{extra}]")


def test_with_a_gpu_but_torch_for_the_cpu_that_is_said(machine: Machine):
    machine.has("nvidia-smi")
    done = machine.set_up()
    assert "this torch is built for the CPU" in done.stdout
    assert machine.done()[-1].endswith(".[lab,test]")


def test_with_a_driver_that_finds_no_gpu_nothing_is_added(machine: Machine):
    machine.has("nvidia-smi", "echo 'No devices were found'; exit 6")
    machine.venv_python("13.0")
    machine.set_up()
    assert machine.done()[-1].endswith(".[lab,test]")


def test_an_existing_virtual_environment_is_kept(machine: Machine):
    machine.set_up()
    machine.set_up()
    assert sum(call.startswith("venv") for call in machine.done()) == 1


def test_another_python_makes_the_virtual_environment_anew(machine: Machine):
    machine.set_up()
    machine.has_python("python3.11", "3.11")
    machine.set_up(PYTHON="python3.11")
    assert sum(call.startswith("venv") for call in machine.done()) == 2


def test_a_half_made_virtual_environment_is_made_anew(machine: Machine):
    machine.program(".venv/bin/python", "#!/bin/sh\nexit 1\n")
    assert machine.set_up().returncode == 0
    assert machine.done()[0].startswith("venv")


def test_when_pip_fails_the_set_up_fails_and_is_tried_again_next_time(machine: Machine):
    machine.set_up()
    machine.program(".venv/bin/python", VENV_PYTHON.format(torch_cuda="no", pip_status=1))
    assert machine.set_up().returncode != 0
    assert not (machine.folder / ".venv/.ready").exists()


def test_a_machine_that_lacks_something_is_left_untouched(machine: Machine):
    (machine.folder / "bin/c++").unlink()
    assert machine.set_up().returncode == 1
    assert not os.path.lexists(machine.folder / ".venv")
