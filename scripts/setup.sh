#!/bin/sh
# Makes .venv and installs tinyvllm in it, at the versions of constraints.txt: what `make setup` runs.
#   PYTHON=python3.12   the interpreter to use
#   EXTRAS=gpu13        extras beside lab and test; they are remembered
#   TORCH_INDEX=<url>   the package index from which torch alone comes, for a build of your choice
# PIP_* variables reach pip as they are.
set -eu
cd "$(dirname "$0")/.."

python=$(sh scripts/check-system.sh)
torch=$(grep "^torch==" constraints.txt)
extras=$(printf '%s' "${EXTRAS:-}" | tr ' ' ',')
remembered=$(cat .venv/extras 2>/dev/null || true)
pip() { .venv/bin/python -m pip --disable-pip-version-check --no-input "$@"; }
version() { "$1" -c 'import sys; print(*sys.version_info[:2])' 2>/dev/null || echo none; }

rm -f .venv/.ready
if [ ! -e .venv/bin/python ] || { [ -n "${PYTHON:-}" ] && [ "$(version .venv/bin/python)" != "$(version "$python")" ]; } ||
    ! pip --version >/dev/null 2>&1; then
    echo "Making .venv with $python"
    "$python" -m venv --clear .venv
fi

if [ -n "${TORCH_INDEX:-}" ]; then
    echo "Installing $torch from the index you named (a CPU build is about 0.2 GB to download)"
    pip install --force-reinstall --no-deps --index-url "$TORCH_INDEX" "$torch"
else
    case $(uname -s) in
    Linux) echo "Installing $torch (with CUDA about 3 GB to download and 7 GB on disk; the README says how to get the CPU build, 0.2 GB)" ;;
    *) echo "Installing $torch (about 0.1 GB to download)" ;;
    esac
    pip install -c constraints.txt "$torch"
fi

# CuPy has to be built for the CUDA version that torch brings.
case "$extras,$remembered" in
*gpu*) ;;
*) if nvidia-smi -L >/dev/null 2>&1; then
    case $(.venv/bin/python -c 'import torch; print(torch.version.cuda or "no")') in
    12.*) gpu=gpu ;;
    13.*) gpu=gpu13 ;;
    *) gpu='' ;;
    esac
    if [ -n "$gpu" ]; then
        echo "Found an NVIDIA GPU: adding EXTRAS=$gpu (CuPy, about 0.2 GB)"
        extras=${extras:+$extras,}$gpu
    else
        echo "Found an NVIDIA GPU, but this torch is built for the CPU: the engine will run on the CPU"
    fi
fi ;;
esac
extras=$(printf '%s,%s' "$extras" "$remembered" | tr ',' '\n' | sort -u | sed '/^$/d' | paste -sd , -)

echo "Installing tinyvllm with the extras lab,test${extras:+,$extras} (about 0.3 GB to download)"
pip install -c constraints.txt -e ".[lab,test${extras:+,$extras}]"
printf '%s\n' "$extras" >.venv/extras
touch .venv/.ready
