"""`python -m tinyvllm doctor`: is this machine ready? One line a finding, with what to do.

OK is fine, NOTE is worth knowing (no GPU, no model yet), FAIL has to be mended: exit status 1.
Nothing is believed: `tinyvllm.machine` compiles and runs a C++ program and a CUDA kernel.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from tinyvllm import machine

PYTHON_VERSIONS = ((3, 11), (3, 13))  # the oldest and the newest
TORCH_VERSION = (2, 11)
ROOM = 1_000_000_000  # bytes of disk beside the model: compiled kernels, notebooks, caches
EMULATOR = "kernels run in the emulator, on the CPU"


@dataclass(frozen=True)
class Finding:
    """What a check found about one thing; `todo` is a command or a sentence, or empty."""

    name: str
    status: Literal["OK", "NOTE", "FAIL"]
    found: str
    todo: str = ""

    def __str__(self) -> str:
        todo = f" -> {self.todo}" if self.todo else ""
        return f"{self.status:5} {self.name:13} {self.found}{todo}"


def main(argv: Sequence[str] | None = None) -> int:
    """Print every finding (or a JSON object, with --json); 1 if one of them is a FAIL, else 0."""
    parser = argparse.ArgumentParser(prog="tinyvllm doctor", description="Check this machine.")
    parser.add_argument("--json", action="store_true", help="the same as one JSON object")
    arguments = parser.parse_args(argv)
    findings = []
    for name, check in CHECKS.items():
        findings.append(_examine(name, check))
        if not arguments.json:
            print(findings[-1], flush=True)
    ok = all(finding.status != "FAIL" for finding in findings)
    if arguments.json:
        print(json.dumps({"ok": ok, "checks": [asdict(finding) for finding in findings]}, indent=2))
    return 0 if ok else 1


def _examine(name: str, check: Callable[[], tuple]) -> Finding:
    try:
        return Finding(name, *check())
    except Exception as error:  # a check that breaks has found something, too
        return Finding(name, "FAIL", f"{type(error).__name__}: {machine.first_line(error)}")


def check_python() -> tuple:
    oldest, newest = PYTHON_VERSIONS
    version = ".".join(map(str, sys.version_info[:3]))
    if oldest <= tuple(sys.version_info[:2]) <= newest:
        return "OK", f"{version}, {sys.executable}"
    supported = f"tinyvllm is tested with {oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]}"
    return "FAIL", f"{version}; {supported}", "make setup PYTHON=python3.12"


def check_torch() -> tuple:
    try:
        import torch
    except ImportError as error:
        return "FAIL", f"can't be imported ({machine.first_line(error)})", "make setup"
    version = str(torch.__version__)
    if tuple(int(part) for part in version.split(".")[:2]) < TORCH_VERSION:
        return "FAIL", f"{version}, too old", "make setup"
    built = f"{version}, built for " + (
        f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU"
    )
    if torch.cuda.is_available():
        gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        return "OK", f"{built}; {', '.join(gpus)}"
    gpus = machine.nvidia_gpus()
    if not gpus:
        return "OK", f"{built}; no NVIDIA GPU, so models run on the CPU"
    if torch.version.cuda:
        todo = "update the driver, or make setup TORCH_INDEX=<an index of torch for an older CUDA>"
        return "FAIL", f"{built}, can't use {gpus[0]}", todo
    return "NOTE", f"{built}, leaves {gpus[0]} idle", "make setup TORCH_INDEX=<one with CUDA>"


def check_cupy() -> tuple:
    builds = machine.cupy_builds()
    torch_cuda = machine.torch_cuda_version()
    extra = "gpu" if torch_cuda and torch_cuda.startswith("12.") else "gpu13"
    if len(builds) > 1:
        todo = f"pip uninstall {' '.join(sorted(builds))}, then make setup EXTRAS={extra}"
        return "FAIL", f"{' and '.join(sorted(builds))} overwrite each other", todo
    if not builds and torch_cuda and machine.nvidia_gpus():
        return "FAIL", "not installed, and the CUDA kernels need it", f"make setup EXTRAS={extra}"
    if not builds:
        return "NOTE", f"not installed: {EMULATOR}"
    ((name, (version, major)),) = builds.items()
    if torch_cuda and major and torch_cuda.split(".")[0] != major:
        todo = f"pip uninstall {name}, then make setup EXTRAS={extra}"
        return "FAIL", f"{name} {version} is for CUDA {major}, torch for CUDA {torch_cuda}", todo
    agrees = f", as torch ({torch_cuda})" if torch_cuda else ""
    return "OK", f"{name} {version} for CUDA {major}{agrees}"


def check_cuda_kernel() -> tuple:
    if machine.nvidia_gpus() and machine.cupy_builds():
        return "OK", machine.run_kernel_on_gpu()
    try:
        compiled = machine.compile_kernel_without_gpu()
    except Exception as error:  # no NVRTC, or not all of it: no matter without a GPU
        return "NOTE", f"not compiled ({machine.first_line(error)}): {EMULATOR}"
    return "OK", f"{compiled}; without a GPU, {EMULATOR}"


def check_compiler() -> tuple:
    command = machine.compiler_command()
    if command is None:
        return "FAIL", "none found (looked for $CXX, c++, g++, clang++)", _how_to_get_a_compiler()
    if problem := machine.try_compiler(command):
        return "FAIL", f"{command[0]}: {problem}", _how_to_get_a_compiler()
    return "OK", f"{' '.join(command)} compiles and runs C++17"


def check_jupyter() -> tuple:
    if not (find_spec("jupyterlab") and find_spec("ipykernel")):
        return "NOTE", "not installed; the engine doesn't need it, the chapters do", "make setup"
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    try:
        spec = KernelSpecManager().get_kernel_spec("python3")
    except NoSuchKernel:
        todo = f"{sys.executable} -m ipykernel install --sys-prefix"
        return "FAIL", "there is no kernel called python3", todo
    # Jupyter itself replaces a bare "python" by the Python that it runs on.
    python, bare = Path(spec.argv[0]), ("python", "python3", Path(sys.executable).name)
    if str(python) in bare or python.parent == Path(sys.executable).parent:
        return "OK", f"JupyterLab {metadata.version('jupyterlab')}, kernel python3 of this Python"
    todo = f"remove {spec.resource_dir}, or rename it"
    return "FAIL", f"the kernel python3 starts another Python, {python}", todo


def check_model() -> tuple:
    from tinyvllm.hub.default_model import (
        MODEL_SIZE,
        NAME,
        default_model_folder,
        is_default_model_ready,
    )

    folder, fetch = default_model_folder(), "python -m tinyvllm fetch"
    if is_default_model_ready():
        return "OK", f"{NAME} in {folder}"
    if folder.exists():
        return "FAIL", f"{NAME} in {folder} is incomplete", fetch
    size = f"{MODEL_SIZE / 1e6:.0f} MB on disk"
    return "NOTE", f"{NAME} is not here yet ({size}); the first use fetches it", fetch


def check_disk() -> tuple:
    from tinyvllm.hub.cache import cache_home
    from tinyvllm.hub.default_model import FREE_SPACE, is_default_model_ready

    needed = ROOM + (0 if is_default_model_ready() else FREE_SPACE)
    folder = cache_home()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    found = f"{free / 1e9:.1f} GB free at {folder}"
    if free >= needed:
        return "OK", found
    todo = "free some, or set TINYVLLM_HOME to a folder on another disk"
    return "FAIL", f"{found}, {needed / 1e9:.1f} GB needed", todo


CHECKS: dict[str, Callable[[], tuple]] = {
    "Python": check_python,
    "torch": check_torch,
    "CuPy": check_cupy,
    "CUDA kernel": check_cuda_kernel,
    "C++ compiler": check_compiler,
    "Jupyter": check_jupyter,
    "default model": check_model,
    "disk": check_disk,
}


def _how_to_get_a_compiler() -> str:
    if sys.platform == "darwin":
        return "xcode-select --install"
    if shutil.which("apt-get"):
        return "sudo apt-get install g++ (or make setup EXTRAS=compiler)"
    return "install g++ or clang++, or make setup EXTRAS=compiler"


if __name__ == "__main__":
    sys.exit(main())
