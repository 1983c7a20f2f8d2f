#!/usr/bin/env bash
# Builds the native module with address and undefined-behaviour sanitizers beside the checkout's own
# and runs a subset of the kernel tests on it. Usage: tests/kernels/run_sanitized.sh [pytest args]
#
# The build goes to a temporary folder, or to $LAMINA_SANITIZED_BUILD to keep it between runs. Needs
# the environment that `make setup` makes, and g++.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
python=$root/.venv/bin/python
PATH=$root/.venv/bin:$PATH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build=${LAMINA_SANITIZED_BUILD:-$work/build}

cmake -S engine/kernels/csrc -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLAMINA_SANITIZE=ON \
  -DPython_EXECUTABLE="$python" > "$work/cmake.log" || { cat "$work/cmake.log"; exit 1; }
cmake --build "$build" --parallel 2 > "$work/build.log" || { cat "$work/build.log"; exit 1; }

# A tree of links to the checkout in which only the native module is another one: `engine` must be
# imported from there, and the installed editable package must not come first.
mkdir -p "$work/tree/engine/kernels"
ln -s "$root/tests" "$root/services" "$root/pyproject.toml" "$work/tree/"
for part in engine/* engine/kernels/*; do
  case $part in
    engine/kernels | engine/kernels/csrc | */__pycache__ | *.so) ;;
    *) ln -s "$root/$part" "$work/tree/$part" ;;
  esac
done
cp "$build"/_native*.so "$work/tree/engine/kernels/"

# Leaks are not looked for: the interpreter keeps what it allocates until the process ends.
export LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libubsan.so)"
export ASAN_OPTIONS=detect_leaks=0:halt_on_error=1 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export LAMINA_TREE=$work/tree PYTHONDONTWRITEBYTECODE=1
cat > "$work/run.py" << 'PY'
"""Runs pytest on the tree with the sanitized module; the editable install's finder steps aside."""

import os
import sys

tree = os.environ["LAMINA_TREE"]
sys.meta_path = [f for f in sys.meta_path if "ScikitBuild" not in type(f).__name__]
sys.path.insert(0, tree)
os.chdir(tree)

import pytest  # noqa: E402

from engine.kernels import _native  # noqa: E402

assert _native.__file__.startswith(tree), _native.__file__
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "--timeout=300", *sys.argv[1:]]))
PY
if [ "$#" -eq 0 ]; then
  # Freed memory is the sanitizer's to keep.
  set -- tests/kernels -k "not thread_pool and not freed_memory and not is_invariant and not 257 and not 300"
fi
"$python" "$work/run.py" "$@"
