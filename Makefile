# Everything that a person types here. `make` makes its own virtual environment; pip and a Python 3.11 to 3.13 are all it
# asks for. Java and the jars are the program's own business (streaming/base/java.py, streaming/base/jars.py).

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo test check cover bench prove install venv lock clean

# python3 where it fits, else the newest that does; PYTHON=… overrides.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$python && break; done)
define NEEDS_PYTHON
@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 is needed and none was found: install one (Debian: python3 python3-venv) or set PYTHON." >&2; exit 1; }
@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "$(PYTHON) can't make virtual environments: install its venv module (Debian: python3-venv)." >&2; exit 1; }
endef
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input

help: ## This list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(READY) ## Run the job over the bundled capture of a real cluster: who owned what, and what went wrong
	$(BIN)/rebalance-watch demo

test: check ## Everything in its short form, real servers included
	$(BIN)/python -m pytest --numprocesses=3 --dist=loadgroup --no-loadscope-reorder

check: $(READY) ## Lint, format, types and the rules of who may import whom
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# In one process, because coverage.py does not see those of pytest-xdist: 6 minutes, too long for `make test`.
cover: $(READY) ## Fail unless tests/core and tests/rules run every branch of the core
	$(BIN)/coverage run -m pytest tests/core tests/rules
	$(BIN)/coverage report

bench: $(READY) ## What the job, the allocation and the simulation cost, beside what the same machine could do at best
	$(BIN)/python -m tests.bench

prove: cover ## The long proofs: cover, then hours of churn, kills, fuzz and thousands of seeds
	$(BIN)/python -m pytest -m prove --timeout=0

# pip chooses what the program needs from wheels whose hashes were checked, so without the developers' packages.
# build/ is where setuptools leaves modules that no longer exist.
PREFIX ?= /opt/rebalance-watch
install: ## Install the program alone into PREFIX (/opt/rebalance-watch), with the pinned packages
	$(NEEDS_PYTHON)
	$(PYTHON) -m venv $(PREFIX)
	@rm -rf build; wheels=$$(mktemp -d); trap 'rm -rf build "$$wheels"' EXIT; pip="$(PREFIX)/bin/python -m pip --disable-pip-version-check --no-input"; \
	$$pip install --quiet --require-hashes -r conf/constraints-build.txt; \
	$$pip wheel --quiet --require-hashes --no-build-isolation --no-deps --wheel-dir "$$wheels" -r conf/constraints.txt; \
	$$pip install --quiet --no-build-isolation --no-index --find-links "$$wheels" .; \
	$$pip check
	$(PREFIX)/bin/rebalance-watch --help >/dev/null

venv: $(READY) ## The virtual environment alone

# pyspark comes as source alone; it is built with the pinned setuptools instead of with whatever is newest.
# --no-compile: most modules are never imported, and those that are get compiled then (10 s of 50 saved).
$(READY): pyproject.toml conf/constraints.txt conf/constraints-build.txt
	$(NEEDS_PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --require-hashes -r conf/constraints-build.txt
	$(PIP) install --quiet --no-compile --require-hashes --no-build-isolation --no-deps -r conf/constraints.txt
	$(PIP) install --quiet --no-build-isolation --no-deps --no-index -e .
	$(PIP) check
	@touch $@

# pip-compile lists the hashes of every file of a release, so one list serves every platform and Python 3.11 to 3.13;
# made with 3.11, because the oldest decides what still fits.
LOCK := $(VENV)/lock/bin/pip-compile --quiet --generate-hashes --no-header --no-annotate --no-emit-options --strip-extras --allow-unsafe
lock: ## Remake conf/constraints*.txt from pyproject.toml (LOCK_OPTIONS=--upgrade for newer versions)
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/pip install --quiet --disable-pip-version-check pip-tools
	$(LOCK) $(LOCK_OPTIONS) --extra dev -o conf/constraints.txt pyproject.toml
	$(LOCK) $(LOCK_OPTIONS) -o conf/constraints-build.txt - <<< 'setuptools>=77'
	sed -i '1i # Every package with the hashes of all its files. Made by `make lock` from pyproject.toml; not edited by hand.' conf/constraints.txt
	sed -i '1i # What builds the packages that come as source. Made by `make lock`; not edited by hand.' conf/constraints-build.txt

clean: ## Forget the virtual environment and the tools' caches (what ran stays in .rebalance-watch)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .import_linter_cache
