# Needs Python 3.11 or later and make. PYTHON names another interpreter: make test PYTHON=python3.12
# PYTEST holds other arguments of the tests: make test PYTEST=tests/process/test_cli.py
# BENCH holds arguments of the benchmark: make bench BENCH='--only all --json figures.json'

PYTHON ?= python3
# Tests wait more than they compute: six on two cores. More would hinder each other.
PYTEST ?= --numprocesses 6 --dist worksteal
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Compiled once, not at each start: the tests start a thousand processes.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run test check lint bench docs clean python

run: .venv/run.stamp
	$(BIN)/ttlproxy

# All tests on the newest server that is here. With TTLPROXY_REQUIRE=6.2,7.0,chromium all of these
# must be here, and the tests run on each of these servers, the slow ones too.
test: lint
	$(BIN)/pytest --progress $(if $(TTLPROXY_REQUIRE),,--quick) $(PYTEST)

# What needs no Redis, and therefore waits for little.
check: lint
	$(BIN)/pytest --progress --quick -m 'not redis' $(PYTEST) --numprocesses auto --maxprocesses 4

lint: .venv/dev.stamp
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/dev.stamp
	$(BIN)/python -m tests.bench $(BENCH)

# Shows the site on http://127.0.0.1:8000, anew after each change.
docs: .venv/dev.stamp .venv/site/mermaid.min.js
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --strict

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Says at once what pip would find out after minutes.
python:
	@python=$(firstword $(wildcard $(BIN)/python) $(PYTHON)); \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "ttlproxy needs Python 3.11 or later, and $$python is $$($$python --version 2>&1):" \
	        "make clean, then make PYTHON=python3.11" >&2; exit 1; }

$(BIN)/python: | python
	$(PYTHON) -m venv .venv

# Draws the diagrams; where there is no npm, the site shows their text.
.venv/site/mermaid.min.js: | $(BIN)/python
	mkdir -p $(@D)
	cd $(@D) && if npm pack --silent mermaid@11; then \
	  tar -xzf mermaid-11*.tgz --strip-components=2 package/dist/$(@F) && rm mermaid-11*.tgz; fi

.venv/run.stamp: pyproject.toml | python $(BIN)/python
	$(INSTALL) -e '.[embedded]'
	touch $@

.venv/dev.stamp: pyproject.toml | python $(BIN)/python
	$(INSTALL) -e '.[dev,embedded]'
	touch $@
