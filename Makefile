# Octavo: `make help` lists the targets. Each one sets up what it needs.
#
# The virtual environment is .venv; three stamps in it say what it holds:
#   .octavo-tools   pip and the build tools (cmake and ninja come from the package
#                   index where the system has none)
#   .octavo-built   the run-time dependencies and the project, its extension built
#   .octavo-tested  the test tools

SHELL := /bin/sh
MODEL ?=
PORT ?=
ARGS ?=
PYTEST_ARGS ?=
JOBS ?= auto
PYTHON ?=
CMAKE_DEFINES ?=

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
INSTALL := $(PIP) install --quiet --no-build-isolation $(addprefix --config-settings=cmake.define.,$(CMAKE_DEFINES))
SOURCES := pyproject.toml $(shell find metal \( -name '*.cpp' -o -name '*.h' -o -name '*.metal' \
	-o -name '*.cmake' -o -name embed.py -o -name CMakeLists.txt \) -type f)
CHECKED := server engine metal tests

.PHONY: help serve generate pull test test-tools deploy-tools build lint format format-check types mutants parity openapi readme clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' Makefile

serve: build ## serve a model: make serve [MODEL=...] [PORT=...] [ARGS="--flag ..."]
	@exec $(VENV)/bin/octavo serve $(if $(MODEL),--model "$(MODEL)") $(if $(PORT),--port "$(PORT)") $(ARGS)

build: $(VENV)/.octavo-built ## make .venv and build the extension

test: test-tools ## run the whole test suite: make test [JOBS=1] [PYTEST_ARGS="..."]
	@$(VENV)/bin/octavo pull smollm2
	@$(PY) -m pytest --numprocesses $(JOBS) --dist worksteal $(PYTEST_ARGS)

test-tools: $(VENV)/.octavo-tested ## install the test tools, run nothing

deploy-tools: ## install what the tests of deploy/ and of the dashboard run for real (Debian; asks for root)
	@sh .ci/real-parts

lint: test-tools ## ruff's rules
	@$(PY) -m ruff check $(CHECKED)

format: test-tools ## rewrite the sources in ruff's format
	@$(PY) -m ruff format $(CHECKED)

format-check: test-tools ## is every source in ruff's format?
	@$(PY) -m ruff format --check $(CHECKED)

types: test-tools ## mypy --strict
	@$(PY) -m mypy

mutants: test-tools ## try the tests of pool, table and index on wrong versions of them
	@$(PY) -m tests.mutation

parity: test-tools ## compare with transformers, live (installs torch into .venv)
	@$(INSTALL) -e '.[parity]'
	@$(PY) tests/parity/record.py --check

openapi: test-tools ## rewrite openapi.yaml from the app
	@$(PY) -m server.contract.openapi openapi.yaml

readme: test-tools ## rewrite the table of flags in README.md
	@$(PY) -m tests.support.readme

clean: ## remove .venv, the build folder and the caches
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis

# The first interpreter that is new enough; PYTHON=... chooses another.
$(VENV)/.octavo-tools: pyproject.toml .ci/find-python
	@set -e; python="$$(sh .ci/find-python $(PYTHON))"; \
	if [ ! -x $(PY) ]; then echo "Making $(VENV) with $$python"; "$$python" -m venv $(VENV); fi
	@echo "Installing the build tools"
	@$(PIP) install --quiet 'scikit-build-core>=1.1,<2'
	@$(PY) -m scikit_build_core.build requires > $(VENV)/build-requirements.json
	@$(PY) -c 'import json, sys; print("\n".join(json.load(sys.stdin)))' \
		< $(VENV)/build-requirements.json > $(VENV)/build-requirements.txt
	@$(PIP) install --quiet -r $(VENV)/build-requirements.txt
	@touch $@

$(VENV)/.octavo-built: $(VENV)/.octavo-tools $(SOURCES)
	@echo "Building the extension and installing Octavo into $(VENV); the first time this takes a few minutes"
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(INSTALL) -e .
	@touch $@

$(VENV)/.octavo-tested: pyproject.toml | $(VENV)/.octavo-built
	@echo "Installing the test tools; the first time this takes a minute or two"
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(INSTALL) -e '.[test]'
	@touch $@
