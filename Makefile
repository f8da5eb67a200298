# Needs Python 3.11 or later and make. PYTHON names another interpreter: make test PYTHON=python3.12
# PYTEST holds other arguments of the tests: make test PYTEST=tests/test_cli.py
# BENCH holds arguments of the benchmark: make bench BENCH='--only all --json figures.json'

PYTHON ?= python3
PYTEST ?= --numprocesses auto --maxprocesses 4 --dist worksteal
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: run test lint bench docs clean

run: .venv/run.stamp
	$(BIN)/ttlproxy

test: lint
	$(BIN)/pytest $(PYTEST)

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
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv .venv

# Draws the diagrams; where there is no npm, the site shows their text.
.venv/site/mermaid.min.js: | $(BIN)/python
	mkdir -p $(@D)
	cd $(@D) && if npm pack --silent mermaid@11; then \
	  tar -xzf mermaid-11*.tgz --strip-components=2 package/dist/$(@F) && rm mermaid-11*.tgz; fi

.venv/run.stamp: pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[embedded,uvloop]'
	touch $@

.venv/dev.stamp: pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[dev,embedded]'
	touch $@
