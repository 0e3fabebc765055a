# Each target does its own set-up, in .venv. `make` alone lists them.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
UV := $(BIN)/uv

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check format proto lock bench chaos soak clean

help: ## list these targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): .ci/requirements-dev.txt .ci/make-venv pyproject.toml
	.ci/make-venv $(PYTHON) $(VENV)

demo: $(READY) ## watch a registration happen, without a cluster
	$(BIN)/csi-registration-simulator demo --registrar $(BIN)/csi-node-driver-registrar

test: $(READY) ## run the tests, with branch coverage
	left_out=$$(.ci/debian-packages) && $(BIN)/pytest -n 4 --cov --cov-report=term $$left_out $(PYTEST_ARGS)

test-all: ## run the tests on every Python that the project supports and this machine has
	.ci/test-all

check: $(READY) ## lint, format, types, import rules, generated code up to date
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	.ci/proto $(PYTHON) --check

format: $(READY) ## put the code into the project's format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

proto: ## make the protocol code from the .proto files
	.ci/proto $(PYTHON)

lock: $(READY) ## resolve the dependencies anew, with hashes, for the image and for development
	.ci/lock $(BIN)/uv

bench: $(READY) ## measure start, memory, CPU and latency (BENCH="--runs 3 --idle 10"; GO_REGISTRAR=... to compare)
	$(BIN)/python -m compileall -q cmd health metrics proto registrar $(VENV)/lib
	PYTHONPATH=tests $(BIN)/python tests/bench.py $(BENCH)

chaos: $(READY) ## let random things happen to many sidecars at once (CHAOS="--events 10000 --seed 1")
	PYTHONPATH=tests $(BIN)/python tests/chaos.py $(CHAOS)

soak: $(READY) ## an hour of probes, scrapes, kubelet rounds and driver restarts, in fast motion
	PYTHONPATH=tests $(BIN)/python tests/soak.py $(SOAK)

clean: ## remove what the other targets made
	rm -rf .venv* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage* dist
