"""pyproject.toml holds ranges, constraints.txt holds versions, the conda files name our extras."""

import re
import subprocess
import sys
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version
from workbench import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
CONSTRAINTS = [
    Requirement(line)
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
PINS = {canonicalize_name(constraint.name): constraint.specifier for constraint in CONSTRAINTS}
# A torch built for CUDA pins these itself, so constraints.txt gives ranges at most.
LEFT_TO_TORCH = re.compile(r"nvidia-|cuda-bindings$|cuda-toolkit$|triton$")


def requirements(lines: list[str]) -> list[Requirement]:
    """The requirements in `lines`; one on ourselves (tinyvllm[lab]) is replaced by that extra's."""
    found = []
    for requirement in map(Requirement, lines):
        if requirement.name == PROJECT["name"]:
            for extra in requirement.extras:
                found += requirements(EXTRAS[extra])
        else:
            found.append(requirement)
    return found


DIRECT = {"": requirements(PROJECT["dependencies"])} | {
    extra: requirements(lines) for extra, lines in EXTRAS.items()
}


@pytest.mark.parametrize("extra", DIRECT)
def test_every_direct_dependency_is_pinned_within_its_range(extra):
    for requirement in DIRECT[extra]:
        pin = PINS.get(canonicalize_name(requirement.name))
        assert pin is not None, f"constraints.txt has no line for {requirement.name}"
        for exact in pin:
            if exact.operator == "==":
                assert requirement.specifier.contains(exact.version), requirement


def test_each_constraint_is_one_version_unless_torch_decides_it():
    for name, specifier in PINS.items():
        exact = [part.operator for part in specifier] == ["=="]
        assert exact != bool(LEFT_TO_TORCH.match(name)), name


# What torch 2.13.0's wheel for Linux on PyPI asks for, of what constraints.txt names.
TORCH_FOR_CUDA_13 = {
    "setuptools": ">=77.0.3",
    "cuda-bindings": ">=13.0.3,<14",
    "nvidia-cuda-nvrtc": "==13.0.88",
    "nvidia-cuda-runtime": "==13.0.96",
}


@pytest.mark.parametrize("name", TORCH_FOR_CUDA_13)
def test_constraints_leave_room_for_a_torch_built_for_cuda_13(name):
    wanted = SpecifierSet(TORCH_FOR_CUDA_13[name])
    candidates = ["13.0.3", "13.0.88", "13.0.96"]
    candidates += [part.version for part in PINS[name] if part.operator == "=="]
    assert any(wanted.contains(v) and PINS[name].contains(v) for v in candidates)


def test_each_constraint_stands_once_and_is_of_no_local_build():
    names = [canonicalize_name(constraint.name) for constraint in CONSTRAINTS]
    assert len(names) == len(set(names))
    assert not any(Version(p.version).local for pin in PINS.values() for p in pin)


def test_constraints_fit_the_environment_that_runs_these_tests():
    """The other way round, a test would not have seen the versions that users get."""
    from importlib.metadata import PackageNotFoundError, version

    wrong = {}
    for extra in ("", "lab", "test"):
        for requirement in DIRECT[extra]:
            name = canonicalize_name(requirement.name)
            try:
                here = version(name)
            except PackageNotFoundError:
                continue
            if not PINS[name].contains(here, prereleases=True):
                wrong[name] = here
    assert wrong == {}


def test_pyproject_pins_nothing_exactly():
    assert not [r for lines in DIRECT.values() for r in lines if "==" in str(r.specifier)]


def test_the_bare_package_needs_no_jupyter():
    names = {requirement.name for requirement in DIRECT[""]}
    jupyter = {"jupyterlab", "notebook", "ipykernel", "ipython", "nbformat", "nbclient"}
    assert not names & (jupyter | {"ipywidgets", "matplotlib", "pytest", "transformers"})


CONDA = {"environment.yml": {"lab", "test", "gpu13"}, "environment-cpu.yml": {"lab", "test"}}


@pytest.mark.parametrize("name", CONDA)
def test_a_conda_file_installs_our_extras_at_our_versions(name):
    environment = yaml.safe_load((ROOT / name).read_text())
    assert environment["name"] == "tinyvllm"
    dependencies = environment["dependencies"]
    (pip,) = [entry["pip"] for entry in dependencies if isinstance(entry, dict)]
    assert "pip" in dependencies  # conda wants pip itself named when there is a pip section
    constraints, editable = pip
    assert (ROOT / constraints.removeprefix("-c ")).name == "constraints.txt"
    extras = Requirement(editable.removeprefix("-e ").replace(".[", "tinyvllm[")).extras
    assert extras == CONDA[name] <= set(EXTRAS)


@pytest.mark.parametrize("name", CONDA)
def test_a_conda_file_takes_a_python_that_the_package_supports(name):
    environment = yaml.safe_load((ROOT / name).read_text())
    (python,) = [d for d in environment["dependencies"] if str(d).startswith("python=")]
    version = python.removeprefix("python=")
    assert version == "3.12"
    assert SpecifierSet(PROJECT["requires-python"]).contains(version)


def test_the_two_conda_files_differ_in_nothing_but_the_gpu():
    gpu, cpu = (yaml.safe_load((ROOT / name).read_text()) for name in CONDA)
    gpu["dependencies"][-1]["pip"][1] = cpu["dependencies"][-1]["pip"][1]
    assert gpu == cpu


def test_python_versions_agree_everywhere():
    from tinyvllm.doctor import PYTHON_VERSIONS

    oldest, newest = PYTHON_VERSIONS
    supported = SpecifierSet(PROJECT["requires-python"])
    minors = [minor for minor in range(30) if supported.contains(f"3.{minor}")]
    assert minors == list(range(oldest[1], newest[1] + 1))
    check = (ROOT / "scripts/check-system.sh").read_text()
    assert " | ".join(f"3.{minor}" for minor in minors) + ")" in check


# --- does it resolve? pip decides, and installs nothing ---


def pip(*arguments: str) -> str:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_extras_of_every_student_resolve_at_the_pinned_versions():
    """Beside what is installed: a set-up from nothing takes minutes, and .ci/run makes one."""
    pip("install", "--dry-run", "--quiet", "-c", "constraints.txt", ".[lab,test,dev]")


@pytest.mark.slow
@pytest.mark.parametrize("extra", ["gpu", "gpu13", "compiler"])
def test_the_pinned_versions_of_an_extra_exist_for_this_platform(extra):
    """Only looked up: CUDA's libraries are a gigabyte, and pip fetches them even for a dry run."""
    for requirement in DIRECT[extra]:
        listed = re.search(r"Available versions: (.*)", pip("index", "versions", requirement.name))
        wanted = PINS[canonicalize_name(requirement.name)]
        assert listed and any(wanted.contains(v) for v in listed[1].split(", ")), requirement
