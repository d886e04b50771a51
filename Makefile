# The commands for developers. `make` creates its own virtual environment and needs only pip and Python 3.11 to 3.13. The
# program itself finds or downloads Java and the jars (streaming/base/java.py, streaming/base/jars.py).

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo test costs quick pythons compiled check cover bench prove docs audit sbom dist install venv lock clean

# Packages are installed without compiled modules. Where this is set, as in many containers, each process would compile
# all that it imports: 2 s of processor time for pandas alone, instead of 0.5 s.
unexport PYTHONDONTWRITEBYTECODE

# python3 if its version is supported, else the newest supported one; PYTHON=… overrides.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$python && break; done)
define NEEDS_PYTHON
@test -n "$(PYTHON)" || { echo "No Python 3.11, 3.12 or 3.13 was found: install one (Debian: python3 python3-venv) or set PYTHON." >&2; exit 1; }
@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "$(PYTHON) can't create virtual environments: install its venv module (Debian: python3-venv)." >&2; exit 1; }
endef
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
# Half a gigabyte, and built from source.
WITHOUT_SPARK := awk '/^[a-z]/ { skip = /^pyspark==/ } !skip'
# Where setuptools leaves modules that no longer exist, and metadata that hides what is installed.
LEFTOVERS := build rebalance_watch.egg-info

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(READY) ## Run the job on a recording of a real cluster and print owners, moves and incidents
	$(BIN)/rebalance-watch demo

test: $(READY) ## Run check and all tests in their short form, including real servers
	$(MAKE) --jobs=3 --output-sync check $(VENV)/spark.jsa $(VENV)/rocketmq.jsa $(VENV)/kafka.jsa
	$(BIN)/python -m pytest -rfEs --numprocesses=4 --dist=loadgroup --no-loadscope-reorder --costs=.pytest_cache/costs.tsv $(HOLD)

# On an idle machine: beside other work the same test costs more, so `make test` only says it.
costs: ## Run `make test`; fail if a folder or a test costs more than tests/support/costs.toml allows
	$(MAKE) test HOLD=--hold-costs

# After each change: two minutes. No server, no Spark, no browser.
quick: $(READY) check ## Run check and the tests of the core, the rules, the field's reports and the documents: 2 minutes
	$(BIN)/python -m pytest tests/core tests/rules tests/field tests/docs -m "not prove and not spark and not live and not compiled" -q --numprocesses=2 --dist=loadgroup --no-loadscope-reorder

# Each further Python of 3.11 to 3.13 on the PATH has an environment of its own, without Spark, which one test needs.
pythons: $(READY) ## Run the tests of the core by each other supported Python on the PATH
	@own=python$$($(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	for python in python3.11 python3.12 python3.13; do \
	test $$python != $$own && $$python -c 'import ensurepip' 2>/dev/null || continue; \
	$(MAKE) --no-print-directory $(VENV)/$$python/.ready || { echo "No environment for $$python: the core is not run by it."; continue; }; \
	echo "The core by $$python:"; \
	$(VENV)/$$python/bin/python -m pytest tests/core --ignore=tests/core/test_one_instant.py -m "not prove and not spark and not live and not compiled" -q -p no:cacheprovider --numprocesses=2 --dist=loadgroup --no-loadscope-reorder || exit 1; done

# What replaces a function of the core can't be shown by a compiled one, which calls its own.
compiled: $(VENV)/compiled/.ready ## Compile the core with mypyc, and run its tests by it
	PYTHONPATH=$(VENV)/compiled:. $(BIN)/pytest tests/core tests/rules tests/field -m "not prove and not spark and not live and not compiled and not replaces" -q -p no:cacheprovider --numprocesses=2 --dist=loadgroup --no-loadscope-reorder

$(VENV)/compiled/.ready: $(READY) setup.py $(shell find rebalance_model -name '*.py')
	@command -v cc >/dev/null || { echo "cc is missing: install what conf/apt.txt names." >&2; exit 1; }
	rm -rf $(@D) && mkdir $(@D) && cp -r setup.py pyproject.toml README.md LICENSE rebalance_model $(@D)
	cd $(@D) && { COMPILED=1 ../bin/python setup.py build_ext --inplace >build.log 2>&1 || { cat build.log >&2; exit 1; }; } && rm -rf build
	@touch $@

$(VENV)/python3.%/.ready: conf/constraints.txt
	python3.$* -m venv $(@D)
	$(WITHOUT_SPARK) conf/constraints.txt > $(@D)/pinned.txt
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-input --require-hashes --no-deps -r $(@D)/pinned.txt
	@touch $@

# Shortens each start of Spark, of a broker and of Kafka in the tests; without it they only take longer.
$(VENV)/%.jsa: $(READY)
	-$(BIN)/python -m tests.support.$*_start

check: $(READY) ## Check lint, format, types and import rules
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# One process for each core, started by hand, because coverage.py does not measure those of pytest-xdist.
COVERED := $(BIN)/coverage run --parallel-mode -m pytest -p no:cacheprovider -m "not prove or combination"
cover: $(READY) ## Fail unless tests/core, tests/rules and tests/field run every branch of the core
	$(BIN)/coverage erase
	$(COVERED) tests/field & field=$$!; \
	$(COVERED) tests/core tests/rules || failed=1; wait $$field || failed=1; test -z "$${failed:-}"
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

bench: $(READY) ## Measure job, allocation and simulation, compared with the limits of this machine
	$(BIN)/python -m tests.instruments.bench

# Parts of at most two hours; tests/PROVED.md has what each test takes. Every long test is in one of them (tests/test_build.py).
PART_1 := tests/core tests/rules tests/field tests/detection tests/differential tests/docs tests/audit tests/instruments/faults tests/lab
PART_2 := tests/fuzz tests/queries tests/cli tests/serve tests/supervise tests/test_install.py tests/test_release.py
PART_3 := tests/collect
PART_4 := tests/pipeline tests/tables tests/upgrade
PART_5 := tests/live --ignore-glob=*/test_churn.py --ignore-glob=*/test_many_kills.py --ignore-glob=*/test_pop_*.py
PART_6 := tests/live/test_churn.py tests/live/test_many_kills.py tests/live/test_pop_faults.py tests/live/test_pop_lab.py
PART_7 := tests/instruments/soak
LONG := -m prove --timeout=0 -rfEs --numprocesses=4 --dist=loadgroup --no-loadscope-reorder
prove: $(VENV)/.fuzz ## Run the long tests: cover, then hours of churn, kills, fuzzing and thousands of seeds; PART=1 to 7: one part
	@: $(if $(PART),$(or $(PART_$(PART)),$(error There is no part $(PART) of the proofs: PART is 1 to 7)))
	$(if $(filter 1,$(PART)),$(MAKE) cover compiled)
	$(if $(PART),$(BIN)/python -m pytest $(PART_$(PART)) $(LONG))
	$(if $(PART),,for part in 1 2 3 4 5 6 7; do $(MAKE) prove PART=$$part || failed=1; done; test -z "$${failed:-}")

# Apart from the other packages, because there are wheels of it only for Linux on x86-64; without it a proof is skipped.
$(VENV)/.fuzz: $(READY) conf/constraints-fuzz.txt
	-$(PIP) install --quiet --only-binary=:all: --require-hashes --no-deps -r conf/constraints-fuzz.txt
	@touch $@

# In an environment of its own: its packages are newer or older than those of the program. Pictures need `make demo` and
# Chromium; without them the tour has none.
docs: $(READY) $(VENV)/docs/.ready ## Build the site of the documents, with offline search, into build/site
	rm -rf build/docs build/site
	-test ! -d .rebalance-watch/demo/tables || $(BIN)/python -m tests.docs.pictures --tour
	$(BIN)/python -m tests.docs.site
	NO_MKDOCS_2_WARNING=1 $(VENV)/docs/bin/mkdocs build --quiet --strict -f build/mkdocs.yml
	@echo "Open build/site/index.html; its search works without a server."

$(VENV)/docs/.ready: $(READY) conf/constraints-docs.txt
	$(PYTHON) -m venv $(VENV)/docs
	$(VENV)/docs/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r conf/constraints-build.txt
	$(VENV)/docs/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-build-isolation --no-deps -r conf/constraints-docs.txt
	@touch $@

audit: $(READY) ## Ask for known vulnerabilities of the pinned packages
	$(BIN)/python -m tests.supply.audit

sbom: $(READY) ## Write the software bill of materials (CycloneDX) to dist/
	$(BIN)/python -m tests.supply.sbom dist/rebalance-watch.cdx.json

# Of the commit's files, not of the folder's; the time in the wheel is the commit's, so that it can be made again.
DIST ?= dist
COMPILED ?= $(if $(shell command -v cc),1)
dist: $(READY) ## Build wheel and sdist of the commit, and those of the library alone, into dist/; where a C compiler is, also a wheel with the core compiled for this machine (COMPILED=: without)
	@source=$$(mktemp -d); trap 'rm -rf "$$source"' EXIT; mkdir -p $(DIST); to=$$(cd $(DIST) && pwd); \
	export SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct); git archive HEAD | tar -x -C "$$source"; \
	build() { (cd "$$1" && COMPILED=$$2 $(abspath $(BIN))/python -c "from setuptools import build_meta; build_meta.build_$$3('$$to')" >/dev/null); }; \
	for project in "$$source" "$$source/rebalance_model"; do build "$$project" "" sdist; build "$$project" "" wheel; done; \
	$(if $(COMPILED),build "$$source" 1 wheel)
	@ls $(DIST)/rebalance_*

# pip chooses what the program needs from wheels whose hashes were checked, so without the developers' packages.
# Of the packages that only the job needs pyspark, half a gigabyte, is not even fetched where it is not installed.
PREFIX ?= /opt/rebalance-watch
EXTRAS ?= job
PINNED := $(if $(EXTRAS),cat,$(WITHOUT_SPARK)) conf/constraints.txt
install: ## Install the program alone into PREFIX (/opt/rebalance-watch), with pinned packages; EXTRAS= without Spark, EXTRAS=job,mcp,oidc,otlp with MCP, sign-in by OIDC and pushes by OTLP
	$(NEEDS_PYTHON)
	$(PYTHON) -m venv $(PREFIX)
	@rm -rf $(LEFTOVERS); wheels=$$(mktemp -d); trap 'rm -rf $(LEFTOVERS) "$$wheels"' EXIT; pip="$(PREFIX)/bin/python -m pip --disable-pip-version-check --no-input"; \
	$$pip install --quiet --require-hashes -r conf/constraints-build.txt; \
	$(PINNED) > "$$wheels/pinned.txt"; \
	$$pip wheel --quiet --require-hashes --no-build-isolation --no-deps --wheel-dir "$$wheels" -r "$$wheels/pinned.txt"; \
	$$pip install --quiet --no-build-isolation --no-index --find-links "$$wheels" .$(EXTRAS:%=[%]); \
	$$pip check
	$(PREFIX)/bin/rebalance-watch --help >/dev/null

venv: $(READY) ## Create only the virtual environment

# pyspark is distributed only as source; it is built with the pinned setuptools instead of the newest one.
# --no-compile: most modules are never imported, the others are compiled when imported (saves 10 s of 50).
$(READY): pyproject.toml conf/constraints.txt conf/constraints-build.txt
	$(NEEDS_PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --require-hashes -r conf/constraints-build.txt
	$(PIP) install --quiet --no-compile --require-hashes --no-build-isolation --no-deps -r conf/constraints.txt
	@rm -rf $(LEFTOVERS)
	$(PIP) install --quiet --no-build-isolation --no-deps --no-index -e .
	$(PIP) check
	@touch $@

# pip-compile lists the hashes of every file of a release, so one list is valid for every platform and Python 3.11 to
# 3.13. It is made with 3.11, because the oldest version has the narrowest choice of packages.
LOCK := $(VENV)/lock/bin/pip-compile --quiet --generate-hashes --no-header --no-annotate --no-emit-options --strip-extras --allow-unsafe
lock: ## Regenerate conf/constraints*.txt from pyproject.toml (LOCK_OPTIONS=--upgrade for newer versions)
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/pip install --quiet --disable-pip-version-check pip-tools
	$(LOCK) $(LOCK_OPTIONS) --extra job --extra mcp --extra oidc --extra otlp --extra dev -o conf/constraints.txt pyproject.toml
	$(LOCK) $(LOCK_OPTIONS) -o conf/constraints-build.txt - <<< 'setuptools>=77'
	$(LOCK) $(LOCK_OPTIONS) -o conf/constraints-fuzz.txt - <<< 'atheris>=3'
	$(LOCK) $(LOCK_OPTIONS) -o conf/constraints-docs.txt - <<< $$'mkdocs-material>=9.8,<10\njieba>=0.42'
	sed -i '1i # Every package with the hashes of all its files. Made by `make lock` from pyproject.toml; not edited by hand.' conf/constraints.txt
	sed -i '1i # What builds the packages that come as source. Made by `make lock`; not edited by hand.' conf/constraints-build.txt
	sed -i '1i # What only `make docs` installs. Made by `make lock`; not edited by hand.' conf/constraints-docs.txt
	sed -i '1i # What only `make prove` installs. Made by `make lock`; not edited by hand.' conf/constraints-fuzz.txt

clean: ## Remove the virtual environment and the tools' caches; .rebalance-watch is kept
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .import_linter_cache
