# Needs Python 3.11 or later and make. PYTHON names another interpreter: make test PYTHON=python3.12
# PYTEST holds other arguments of the tests: make test PYTEST=tests/test_cli.py
# BENCH holds arguments of the benchmark: make bench BENCH='--only all --json figures.json'

PYTHON ?= python3
PYTEST ?= --numprocesses auto --maxprocesses 4 --dist worksteal
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: run test lint bench clean

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

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv .venv

.venv/run.stamp: pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[embedded,uvloop]'
	touch $@

.venv/dev.stamp: pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[dev,embedded]'
	touch $@
