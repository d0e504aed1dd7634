#!/bin/sh
# Prints the Python to make .venv with. What this machine lacks is said on stderr, with what to do (exit status 1).
# PYTHON= names an interpreter of your own, CXX= a compiler; EXTRAS=compiler brings a compiler from PyPI instead.
set -u

if [ -n "${PYTHON:-}" ]; then set -- "$PYTHON"; else set -- python3.13 python3.12 python3.11 python3 python; fi
python='' no_venv='' unfit=''
for name in "$@"; do
    # Run it: a pyenv shim, for example, exists for versions that aren't switched on.
    version=$("$name" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
    case $version in
    3.11 | 3.12 | 3.13)
        if "$name" -c 'import ensurepip, venv' 2>/dev/null; then
            python=$(command -v "$name")
            break
        fi
        no_venv=${no_venv:-$version}
        ;;
    *) unfit="${unfit:+$unfit, }$name is $version" ;;
    esac
done

lacks='' apt=''
lack() {
    lacks="$lacks
  - $1"
    apt="$apt $2"
}

if [ -z "$python" ]; then
    if [ -n "$no_venv" ]; then
        lack "Python's venv module (python$no_venv-venv)" "python$no_venv-venv"
    elif [ -n "${PYTHON:-}" ]; then
        lack "Python 3.11, 3.12 or 3.13: PYTHON=$PYTHON ${unfit:+has the wrong version: $unfit}${unfit:-does not run}" "python3 python3-venv"
    else
        lack "Python 3.11, 3.12 or 3.13${unfit:+ ($unfit)}; any of them elsewhere: make setup PYTHON=/path/to/python3" "python3 python3-venv"
    fi
fi

compiler=''
for name in "${CXX:-c++}" c++ g++ clang++; do
    if "$name" --version >/dev/null 2>&1; then
        compiler=$name
        break
    fi
done
case "$compiler,${EXTRAS:-}" in
,*compiler*) ;;
,*) lack "a C++ compiler, which runs CUDA kernels on the CPU (or, from PyPI, 100 MB: make setup EXTRAS=compiler)" "g++" ;;
esac

command -v make >/dev/null 2>&1 || lack "make" "make"

if [ -n "$lacks" ]; then
    echo "tinyvllm needs what this machine lacks:$lacks" >&2
    if command -v apt-get >/dev/null 2>&1; then
        echo "Install it:  sudo apt-get install -y$apt" >&2
    elif [ "$(uname)" = Darwin ]; then
        echo "Install it:  xcode-select --install  (compiler, make); Python from Homebrew: brew install python@3.12" >&2
    else
        echo "Install it with this system's package manager, or use conda: environment.yml." >&2
    fi
    exit 1
fi
echo "$python"
