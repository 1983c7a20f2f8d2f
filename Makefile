# Lamina's commands. `make` prints them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PROTOS := common scheduler worker
STAMP := $(VENV)/.setup-stamp

.DEFAULT_GOAL := help
.PHONY: help setup build demo test test-kernels test-cluster lint fmt type proto bench ci clean

help:  ## print this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## make .venv with everything (Python 3.11-3.13, a C++ compiler)

$(STAMP): pyproject.toml engine/kernels/csrc/CMakeLists.txt tools/setup.sh
	PYTHON=$(PYTHON) bash tools/setup.sh $(VENV)
	@touch $@

build: setup  ## compile the native module again after a change in engine/kernels/csrc
	$(BIN)/pip install --quiet --no-build-isolation --no-deps -e .

demo: setup  ## serve the bundled model; prints a URL (PORT=8080 by default)
	$(BIN)/lamina serve models/lamina-demo.gguf --port $(or $(PORT),8080)

test: setup  ## every test
	$(BIN)/python -m pytest -q $(PYTEST_ARGS)

test-kernels: setup  ## the native ops against their references
	$(BIN)/python -m pytest -q tests/kernels

test-cluster: setup  ## real processes and faults
	$(BIN)/python -m pytest -q tests/cluster

lint: setup  ## ruff and mypy --strict
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy engine services tests

fmt: setup  ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

proto: setup  ## generate services/pb from proto/
	$(BIN)/python -m grpc_tools.protoc -I services/pb=proto --python_out=. --pyi_out=. \
	  --grpc_python_out=. $(PROTOS:%=services/pb/%.proto)

bench: setup  ## the tables of docs/performance.md, beside llama.cpp; half an hour, 10 GB in build/bench
	$(BIN)/pip install --quiet --no-build-isolation -e '.[bench]'
	$(BIN)/python bench/tables.py --threads $(or $(THREADS),2)

ci:  ## what continuous integration runs, from a clean clone
	bash .ci/run

clean:  ## remove everything that can be made again
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
