# Set-up is automatic: every target first makes .venv, and brings it up to date when pyproject.toml changes.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.up-to-date
IN_PARALLEL := -n 3 --dist worksteal

# Tests start processes by the hundred: what those import is compiled once, whatever the environment says.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help install demo test test-slow test-install chaos lint bench bench-limits bench-papers bench-peers fuzz dist

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMP)  ## make .venv with everything for training, the demo and the tests

demo: $(STAMP)  ## train the main job: a coordinator and four client processes on this machine
	@$(BIN)/coordinator loopback

test: $(STAMP)  ## run the tests, with ruff and the dependency rules
	@$(BIN)/python -m pytest $(IN_PARALLEL)

test-slow: $(STAMP)  ## run the tests that are left out there: mypy, and every method, simulated and in real processes
	@$(BIN)/python -m pytest -m slow $(IN_PARALLEL)

test-install: $(STAMP)  ## run the install script on a Debian that boots, as root, with debootstrap and systemd-nspawn
	@$(BIN)/python -m pytest tests/deploy -m install

chaos: $(STAMP)  ## kill processes at every failure point and by seeded schedules, on bad links too; takes long
	@$(BIN)/python -m pytest tests/chaos -m "chaos or not chaos" $(IN_PARALLEL)

lint: $(STAMP)  ## check style, types and dependency rules only
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(STAMP)  ## run the benchmarks, print their figures and keep them in tests/benchmarks/results
	@$(BIN)/python -m tests.benchmarks.page_cache
	@$(BIN)/python -m tests.benchmarks

bench-limits: $(STAMP)  ## likewise, each figure beside the least that this machine can do
	@$(BIN)/python -m tests.benchmarks.page_cache
	@$(BIN)/python -m tests.benchmarks.limits

bench-papers: $(STAMP)  ## repeat a paper's table: TABLE=fedpa SCALE=cpu, or gpu; without TABLE list them
	@$(BIN)/python -m tests.benchmarks.papers $(TABLE) --scale $(or $(SCALE),cpu)

bench-peers: .venv-peers/.up-to-date  ## measure this runtime beside Flower's, each in its own processes; about an hour
	@.venv-peers/bin/python -m tests.benchmarks.page_cache
	@.venv-peers/bin/python -m tests.benchmarks.peers $(ARGS)

fuzz: $(STAMP)  ## look for bytes that the coordinator does not survive, 2,000,000 inputs
	@$(BIN)/python -m pip install -qq --group fuzz
	@$(BIN)/python -m tests.fuzz -runs=2000000

dist:  ## build the wheel, dist/protoedge-*.whl, which installs without a compiler
	@$(PYTHON) -m pip wheel -qq --no-deps --wheel-dir dist .
	@rm -rf build
	@ls dist/*.whl

.venv-peers/.up-to-date: pyproject.toml
	@$(PYTHON) -m venv .venv-peers
	@.venv-peers/bin/python -m pip install -qq --upgrade "pip>=25.1"
	@.venv-peers/bin/python -m pip install -qq --editable ".[bench]"
	@touch $@

# One call for all packages: torch and torchvision must be resolved together. `--group` needs pip 25.1.
$(STAMP): pyproject.toml
	@echo "Setting up .venv with $$($(PYTHON) --version); torch makes this take a few minutes the first time."
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -qq --upgrade "pip>=25.1"
	@$(BIN)/python -m pip install -qq --editable ".[train,report,dashboard,privacy,onnx]" --group dev
	@touch $@
	@echo "Ready."
