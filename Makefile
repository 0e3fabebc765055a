# Each target does its own set-up, in .venv. `make` alone lists them.
PYTHON ?= python3
VENV ?= .venv
# Which tools are in it: of .ci/requirements-dev.txt and so on.
TOOLS ?= dev deploy
BIN := $(VENV)/bin
READY := $(VENV)/.ready
UV := $(BIN)/uv

.DEFAULT_GOAL := help
CHECKOV := .venv-checkov/bin/checkov
NPM_READY := tests/screenshots/node_modules/.package-lock.json
# What starts many processes, a browser among them, and has the machine to itself.
E2E := tests/test_alertmanager.py tests/test_fleet_queries.py tests/test_screenshots.py
BROWSER := chromium fonts-dejavu-core
.PHONY: help demo test test-all e2e image-test check format generate proto lock sbom audit bench \
	fleet fleet-bench swap chaos soak screenshots clean

help: ## list these targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): $(TOOLS:%=.ci/requirements-%.txt) .ci/make-venv pyproject.toml
	.ci/make-venv $(PYTHON) $(VENV) $(TOOLS)

$(CHECKOV): .ci/requirements-checkov.txt .ci/make-venv
	.ci/make-venv $(PYTHON) .venv-checkov checkov
	touch $@

$(NPM_READY): tests/screenshots/package-lock.json
	cd tests/screenshots && npm ci --no-progress
	touch $@

demo: $(READY) ## watch a registration happen, without a cluster
	$(BIN)/csi-registration-simulator demo --registrar $(BIN)/csi-node-driver-registrar

test: $(READY) $(CHECKOV) ## run the tests, with branch coverage
	marks=$$(.ci/debian-packages prometheus) && left_out=$$(.ci/helm) && \
	$(BIN)/pytest -n 4 --cov --cov-report=term -m "$$marks" $$left_out $(E2E:%=--ignore=%) $(PYTEST_ARGS)

test-all: ## run the tests on every Python that the project supports and this machine has
	.ci/test-all

e2e: $(READY) $(NPM_READY) ## run the tests with a fleet, Prometheus, Alertmanager and a browser
	marks=$$(.ci/debian-packages prometheus prometheus-alertmanager $(BROWSER)) && \
	$(BIN)/pytest --no-cov -m "$$marks" $(E2E)

image-test: $(READY) ## build the image and run containers of it (as root on Debian)
	.ci/image-test $(VENV)

check: $(READY) ## lint, format, types, import rules, generated code up to date
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	.ci/proto $(PYTHON) --check
	$(BIN)/python dashboards/generate.py --check
	$(BIN)/python deploy/generate.py --check

format: $(READY) ## put the code into the project's format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

generate: $(READY) ## make the dashboards' JSON, and the copies that kustomize and the chart need
	$(BIN)/python dashboards/generate.py
	$(BIN)/python deploy/generate.py

proto: ## make the protocol code from the .proto files
	.ci/proto $(PYTHON)

lock: $(READY) ## resolve the dependencies anew, with hashes, for the image and for development
	.ci/lock $(BIN)/uv

sbom: $(READY) ## list what the image holds, in dist/sbom.cdx.json (CycloneDX)
	mkdir -p dist
	$(BIN)/cyclonedx-py requirements deploy/requirements.txt --pyproject pyproject.toml \
		--output-reproducible --output-file dist/sbom.cdx.json

audit: $(READY) ## ask PyPI for known vulnerabilities of what the image holds
	.ci/audit $(UV)

bench: $(READY) ## measure start, memory, CPU and latency (BENCH="--runs 3 --idle 10"; GO_REGISTRAR=... to compare)
	$(BIN)/python -m compileall -q cmd health metrics proto registrar $(VENV)/lib
	PYTHONPATH=tests GRPC_VERBOSITY=NONE $(BIN)/python tests/bench.py $(BENCH)

fleet: $(READY) ## run a small fleet, broken in many ways, and its Prometheus, to look at
	CI=true .ci/debian-packages prometheus
	PYTHONPATH=tests $(BIN)/python tests/fleet.py

fleet-bench: $(READY) ## ask every question of the fleet's dashboard about 500 nodes
	CI=true .ci/debian-packages prometheus
	PYTHONPATH=tests $(BIN)/python tests/fleet_bench.py $(FLEET_BENCH)

swap: $(READY) ## measure how long a node lacks its driver while a sidecar is replaced
	PYTHONPATH=tests $(BIN)/python tests/swap_measurement.py $(SWAP)

chaos: $(READY) ## let random things happen to many sidecars at once (CHAOS="--events 10000 --seed 1")
	PYTHONPATH=tests $(BIN)/python tests/chaos.py $(CHAOS)

soak: $(READY) ## an hour of probes, scrapes, kubelet rounds and driver restarts, in fast motion
	PYTHONPATH=tests $(BIN)/python tests/soak.py $(SOAK)

screenshots: $(READY) $(NPM_READY) ## draw the dashboards and the page at / anew, beside a live fleet
	CI=true .ci/debian-packages prometheus $(BROWSER)
	PYTHONPATH=tests $(BIN)/python tests/picturing.py dashboards/images

clean: ## remove what the other targets made
	rm -rf .venv* .tools tests/screenshots/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage* dist
