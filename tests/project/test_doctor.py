"""`tinyvllm doctor`: every kind of trouble is found, told in one line with what to do."""

import json
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import pytest
from workbench import ROOT

from tinyvllm import doctor, machine

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(machine, "nvidia_gpus", lambda: [])


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(machine, "nvidia_gpus", lambda: ["NVIDIA H200"])


def cuda(monkeypatch, torch: str | None, **cupy: tuple[str, str]) -> None:
    """Pretend that torch is built for CUDA `torch`, and that these builds of CuPy are installed."""
    builds = {name.replace("_", "-"): build for name, build in cupy.items()}
    monkeypatch.setattr(machine, "torch_cuda_version", lambda: torch)
    monkeypatch.setattr(machine, "cupy_builds", lambda: builds)


def pretend_torch(monkeypatch, version="2.13.0", cuda="13.0", available=False) -> None:
    torch = SimpleNamespace(
        __version__=version,
        version=SimpleNamespace(cuda=cuda),
        cuda=SimpleNamespace(
            is_available=lambda: available,
            device_count=lambda: 1,
            get_device_name=lambda i: "NVIDIA H200",
        ),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)


def says(finding: tuple, status: str, *words: str) -> None:
    assert finding[0] == status, finding
    for word in words:
        assert word in " ".join(finding[1:])


# --- the whole ---


@pytest.mark.slow
def test_on_this_machine_every_line_is_ok_or_a_note_and_the_exit_status_is_0():
    command = [sys.executable, "-m", "tinyvllm", "doctor"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert [line[6:19].strip() for line in lines] == list(doctor.CHECKS)
    assert {line.split()[0] for line in lines} <= {"OK", "NOTE"}
    compiler = next(line for line in lines if "C++" in line)
    assert compiler.startswith("OK")


def test_one_failure_makes_the_exit_status_1_and_later_checks_still_run(monkeypatch, capsys):
    checks = {
        "first": lambda: ("FAIL", "is broken", "mend it"),
        "second": lambda: ("NOTE", "is absent"),
        "third": lambda: 1 / 0,
        "fourth": lambda: ("OK", "is well"),
    }
    monkeypatch.setattr(doctor, "CHECKS", checks)
    assert doctor.main([]) == 1
    assert capsys.readouterr().out == (
        "FAIL  first         is broken -> mend it\n"
        "NOTE  second        is absent\n"
        "FAIL  third         ZeroDivisionError: division by zero\n"
        "OK    fourth        is well\n"
    )


def test_notes_alone_leave_the_exit_status_0(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "CHECKS", {"it": lambda: ("NOTE", "is absent", "fetch it")})
    assert doctor.main([]) == 0


def test_json_says_the_same_as_one_object(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "CHECKS", {"it": lambda: ("FAIL", "is broken", "mend it")})
    assert doctor.main(["--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "ok": False,
        "checks": [{"name": "it", "status": "FAIL", "found": "is broken", "todo": "mend it"}],
    }


def test_a_finding_is_one_line(monkeypatch, capsys):
    def broken():
        raise RuntimeError("\n  the cause\nand a long story")

    monkeypatch.setattr(doctor, "CHECKS", {"it": broken})
    doctor.main([])
    assert capsys.readouterr().out == "FAIL  it            RuntimeError: the cause\n"


# --- Python, torch ---


@pytest.mark.parametrize("version", [(3, 10, 9), (3, 14, 0), (2, 7, 18)])
def test_a_python_of_another_version_fails(monkeypatch, version):
    monkeypatch.setattr(sys, "version_info", version)
    says(doctor.check_python(), "FAIL", ".".join(map(str, version)), "3.11 to 3.13", "make setup")


@pytest.mark.parametrize("version", [(3, 11, 2), (3, 12, 0), (3, 13, 9)])
def test_a_supported_python_is_ok(monkeypatch, version):
    monkeypatch.setattr(sys, "version_info", version)
    says(doctor.check_python(), "OK", ".".join(map(str, version)))


def test_torch_that_cannot_be_imported_fails(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    says(doctor.check_torch(), "FAIL", "can't be imported", "make setup")


def test_an_old_torch_fails(monkeypatch):
    pretend_torch(monkeypatch, version="2.9.1+cu128")
    says(doctor.check_torch(), "FAIL", "2.9.1+cu128, too old")


def test_torch_on_the_cpu_is_ok_where_there_is_no_gpu(monkeypatch, no_gpu):
    pretend_torch(monkeypatch, version="2.13.0+cpu", cuda=None)
    says(doctor.check_torch(), "OK", "2.13.0+cpu", "no NVIDIA GPU")


def test_torch_with_a_gpu_names_it(monkeypatch, gpu):
    pretend_torch(monkeypatch, available=True)
    says(doctor.check_torch(), "OK", "CUDA 13.0", "NVIDIA H200")


def test_torch_for_cuda_that_cannot_use_the_gpu_fails(monkeypatch, gpu):
    pretend_torch(monkeypatch)
    says(doctor.check_torch(), "FAIL", "can't use NVIDIA H200", "driver", "TORCH_INDEX")


def test_torch_for_the_cpu_beside_a_gpu_is_worth_a_note(monkeypatch, gpu):
    pretend_torch(monkeypatch, cuda=None)
    says(doctor.check_torch(), "NOTE", "NVIDIA H200 idle", "TORCH_INDEX")


# --- CuPy and the CUDA kernel ---


@pytest.mark.parametrize(
    ("torch", "name", "major", "extra"),
    [("13.0", "cupy_cuda12x", "12", "gpu13"), ("12.8", "cupy_cuda13x", "13", "gpu")],
)
def test_cupy_for_another_cuda_than_torch_fails(monkeypatch, torch, name, major, extra):
    cuda(monkeypatch, torch, **{name: ("14.2.0", major)})
    finding = doctor.check_cupy()
    says(finding, "FAIL", f"for CUDA {major}, torch for CUDA {torch}")
    assert finding[2].endswith(f"make setup EXTRAS={extra}")


def test_cupy_for_the_same_cuda_as_torch_is_ok(monkeypatch):
    cuda(monkeypatch, "13.0", cupy_cuda13x=("14.2.0", "13"))
    says(doctor.check_cupy(), "OK", "cupy-cuda13x 14.2.0", "torch (13.0)")


def test_two_builds_of_cupy_fail(monkeypatch):
    cuda(monkeypatch, "13.0", cupy_cuda12x=("14.2.0", "12"), cupy_cuda13x=("14.2.0", "13"))
    says(doctor.check_cupy(), "FAIL", "cupy-cuda12x and cupy-cuda13x", "pip uninstall")


def test_no_cupy_fails_with_a_gpu_and_is_a_note_without(monkeypatch, gpu):
    cuda(monkeypatch, "13.0")
    says(doctor.check_cupy(), "FAIL", "make setup EXTRAS=gpu13")
    monkeypatch.setattr(machine, "nvidia_gpus", lambda: [])
    says(doctor.check_cupy(), "NOTE", "emulator")


def test_installed_builds_of_cupy_are_told_apart_by_their_names(monkeypatch):
    installed = [("CuPy-CUDA12x", "14.2.0"), ("cupy", "14.0.0"), ("cupy-xarray", "1"), (None, "1")]
    fake = [SimpleNamespace(metadata={"Name": n}, version=v) for n, v in installed]
    monkeypatch.setattr(machine.metadata, "distributions", lambda: fake)
    assert machine.cupy_builds() == {"cupy-cuda12x": ("14.2.0", "12"), "cupy": ("14.0.0", "")}


def test_a_kernel_that_fails_on_the_gpu_fails(monkeypatch, gpu):
    cuda(monkeypatch, "13.0", cupy_cuda13x=("14.2.0", "13"))
    broken = SimpleNamespace(arange=lambda *_, **__: 1 / 0, float32=None)
    monkeypatch.setitem(sys.modules, "cupy", broken)
    finding = doctor._examine("CUDA kernel", doctor.check_cuda_kernel)
    assert (finding.status, finding.found) == ("FAIL", "ZeroDivisionError: division by zero")


@pytest.mark.skipif(sys.platform == "darwin", reason="NVRTC has no build for macOS")
def test_without_a_gpu_the_kernel_is_compiled_by_nvrtc(no_gpu):
    says(doctor.check_cuda_kernel(), "OK", "compiled by NVRTC 1", "emulator")


def test_a_kernel_with_a_mistake_is_not_called_compiled(monkeypatch, no_gpu):
    monkeypatch.setattr(machine, "KERNEL", 'extern "C" __global__ void twice() { mistake; }')
    says(doctor.check_cuda_kernel(), "NOTE", "NVRTC_ERROR_COMPILATION", "emulator")


def test_without_nvrtc_the_emulator_is_named(monkeypatch, no_gpu):
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    says(doctor.check_cuda_kernel(), "NOTE", "not compiled", "emulator")


@pytest.mark.gpu
def test_on_a_gpu_the_kernel_is_run():
    says(doctor.check_cuda_kernel(), "OK", "run on the GPU")


# --- the C++ compiler ---


def compiler(tmp_path: Path, monkeypatch, script: str) -> None:
    path = tmp_path / "my-compiler"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("CXX", str(path))


def test_the_compiler_really_compiles_and_the_program_really_runs(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    says(doctor.check_compiler(), "OK", "compiles and runs C++17")


def test_a_missing_compiler_fails(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(machine.shutil, "which", lambda name: None)
    monkeypatch.setattr(machine, "find_spec", lambda name: None)
    says(doctor.check_compiler(), "FAIL", "none found", "EXTRAS=compiler")


def test_a_compiler_from_pypi_is_the_last_resort(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(machine.shutil, "which", lambda name: None)
    monkeypatch.setattr(machine, "find_spec", lambda name: name == "ziglang")
    assert machine.compiler_command() == [sys.executable, "-m", "ziglang", "c++"]


def test_a_compiler_that_fails_fails_with_its_first_line(tmp_path, monkeypatch):
    compiler(tmp_path, monkeypatch, "echo 'iostream: not found' >&2; echo more >&2; exit 1")
    says(doctor.check_compiler(), "FAIL", "compiling failed: iostream: not found")


def test_a_compiler_whose_programs_do_not_run_fails(tmp_path, monkeypatch):
    compiler(tmp_path, monkeypatch, "exit 0")  # makes no program
    says(doctor.check_compiler(), "FAIL", "running failed")


def test_a_compiler_whose_programs_are_wrong_fails(tmp_path, monkeypatch):
    true = shutil.which("true")
    compiler(tmp_path, monkeypatch, f'while [ "$1" != -o ]; do shift; done; cp {true} "$2"')
    says(doctor.check_compiler(), "FAIL", "instead of 42")


# --- Jupyter ---


def kernel(tmp_path: Path, monkeypatch, *argv: str) -> None:
    folder = tmp_path / "kernels" / "python3"
    folder.mkdir(parents=True)
    spec = {"argv": argv, "display_name": "Python 3", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))


ARGUMENTS = ["-m", "ipykernel_launcher", "-f", "{connection_file}"]


def test_the_kernel_of_this_python_is_ok(tmp_path, monkeypatch):
    kernel(tmp_path, monkeypatch, sys.executable, *ARGUMENTS)
    says(doctor.check_jupyter(), "OK", "JupyterLab", "of this Python")


def test_a_kernel_of_another_python_fails(tmp_path, monkeypatch):
    kernel(tmp_path, monkeypatch, "/somewhere/else/bin/python3", *ARGUMENTS)
    says(doctor.check_jupyter(), "FAIL", "/somewhere/else/bin/python3", "kernels/python3")


def test_without_jupyter_the_engine_is_fine(monkeypatch):
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    says(doctor.check_jupyter(), "NOTE", "the engine doesn't need it", "make setup")


# --- the model and the disk ---


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("TINYVLLM_HOME", str(tmp_path / "not" / "yet"))
    return tmp_path


def test_a_model_that_is_not_here_yet_is_a_note_with_the_command_that_fetches_it(home):
    says(doctor.check_model(), "NOTE", "is not here yet", "273 MB", "python -m tinyvllm fetch")
    assert not list(home.iterdir())


def test_half_a_model_fails(home):
    from tinyvllm.hub.default_model import default_model_folder

    default_model_folder().mkdir(parents=True)
    says(doctor.check_model(), "FAIL", "incomplete", "python -m tinyvllm fetch")


def test_a_complete_model_is_ok_and_its_folder_is_said(home):
    from tinyvllm.hub.cache import MANIFEST
    from tinyvllm.hub.default_model import default_model_folder

    folder = default_model_folder()
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / MANIFEST).write_text(json.dumps({"files": {"config.json": 2}}))
    says(doctor.check_model(), "OK", str(folder))


def disk(monkeypatch, free: float) -> None:
    usage = Usage(10**12, 10**12 - int(free), int(free))
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda folder: usage)


def test_a_full_disk_fails(home, monkeypatch):
    disk(monkeypatch, 0.4e9)
    says(doctor.check_disk(), "FAIL", f"0.4 GB free at {home}", "1.3 GB needed", "TINYVLLM_HOME")


def test_enough_room_is_ok(home, monkeypatch):
    disk(monkeypatch, 50e9)
    says(doctor.check_disk(), "OK", "50.0 GB free")
