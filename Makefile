# Everything runs in a virtual environment of its own, made on first use: a fresh clone needs only Python 3.11 and make.
# Stamp files inside it remember what is installed, so that later runs start at once.

ifeq ($(OS),Windows_NT)  # with the sh of Git for Windows or MSYS2 on the path
SHELL  := sh
PYTHON ?= python
BIN    := .venv/Scripts
else
PYTHON ?= python3
BIN    := .venv/bin
endif
VENV   := .venv
# Most of what is installed is never imported: Python compiles a module when it is first imported, and keeps it.
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
unexport PYTHONDONTWRITEBYTECODE

# Compiled kernels are kept here, by the content of their sources: tests, demo and benchmarks share them.
export NUMBA_CACHE_DIR := $(CURDIR)/.numba_cache

.PHONY: help test test-random test-site test-cluster test-oldest test-newest test-peers coverage fuzz soak demo bench docs wheel test-wheel test-sdist lint format clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "make %-12s %s\n", $$1, $$2 }'

test: $(VENV)/.test  ## check style, types and imports, and meanwhile run the tests
	@$(MAKE) --no-print-directory lint > $(VENV)/lint.log 2>&1 & lint=$$!; \
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile; tests=$$?; \
	wait $$lint || { cat $(VENV)/lint.log >&2; echo 'make lint failed, see above' >&2; exit 1; }; exit $$tests

# Each run draws other examples; SEED=... draws those of an earlier run again.
test-random: $(VENV)/.test  ## run the property tests on fresh random examples (make test always draws the same)
	@seed=$${SEED:-$$($(BIN)/python -c 'import secrets; print(secrets.randbelow(2**32))')}; \
	echo "drawing with seed $$seed: make test-random SEED=$$seed draws the same again"; \
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile -m hypothesis --hypothesis-profile random --hypothesis-seed $$seed

test-site: $(VENV)/.test $(VENV)/.docs  ## build the site and run every script of its gallery (two minutes)
	@$(BIN)/python -m pytest --numprocesses 2 -m site

test-cluster: $(VENV)/.test  ## break small clusters in every way: killed workers, cut lines, full memory (some minutes)
	@$(BIN)/python -m pytest -m cluster

# Environments of their own: the oldest dependencies that pyproject.toml allows, and the newest of another Python.
# TESTS=tests/hmm for a part of the suite.
test-oldest: requirements/oldest.txt  ## run the tests with the oldest dependencies, on Python 3.11
	@$(PYTHON) -m venv .venv-oldest
	@$(subst $(VENV)/,.venv-oldest/,$(PIP)) --constraint $< '.[test]'
	@$(subst $(VENV)/,.venv-oldest/,$(BIN)/)python -m pytest -p no:cacheprovider --numprocesses 2 --dist loadfile $(TESTS)

test-newest:  ## run them with the newest dependencies: make test-newest PYTHON=python3.14
	@$(PYTHON) -m venv .venv-newest
	@$(subst $(VENV)/,.venv-newest/,$(PIP)) --upgrade '.[test]' || { \
	  echo 'without PyTorch, if it has no build for this Python: its tests are skipped' >&2; \
	  $(subst $(VENV)/,.venv-newest/,$(PIP)) --upgrade '.[test-without-torch]'; }
	@$(subst $(VENV)/,.venv-newest/,$(BIN)/)python -m pytest -p no:cacheprovider --numprocesses 2 --dist loadfile $(TESTS)

test-peers: requirements/peers.txt  ## check the comparison with other libraries, and run the page for movers beside them
	@$(PYTHON) -m venv .venv-peers
	@$(subst $(VENV)/,.venv-peers/,$(PIP)) --requirement $< . pytest hypothesis networkx
	@$(subst $(VENV)/,.venv-peers/,$(BIN)/)python scripts/check_comparison.py
	@$(subst $(VENV)/,.venv-peers/,$(BIN)/)python -m pytest -p no:cacheprovider tests/test_docs.py -k from-other-libraries

# Kernels are compiled, which coverage cannot see: they are left out (see pyproject.toml, which also has the floor).
coverage: $(VENV)/.test  ## run the tests and say which lines they do not reach
	@$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --cov --cov-report term:skip-covered $(TESTS)

# SECONDS=... for longer or shorter, SEED=... for other changes, TARGETS='HMM sound' for some of them.
fuzz: $(VENV)/.test  ## feed changed files to every reader and every kind of model, with limits of time and memory
	@$(BIN)/python tests/fuzz/fuzz.py $(TARGETS) --seconds $${SECONDS:-300} --seed $${SEED:-0}

# MINUTES=3: checkpointed fits, jobs on a cluster and alignments under random faults, as in continuous integration;
# MINUTES=60: for an hour, with a thousand recordings.
soak: $(VENV)/.test  ## kill processes while they save, train, align and work for a cluster: nothing may be lost
	@$(BIN)/python tests/fuzz/soak.py --seed $${SEED:-0} $${MINUTES:+--minutes $$MINUTES}

demo: $(VENV)/.demo  ## one story in four chapters: the loss that matters, hidden states, a network, speech; a page in demo_output/
	@$(BIN)/trellis demo

# Hours, most of them for speech. OPTIONS=--quick: what each can say in little time; OPTIONS='--only hmm': that one.
bench: $(VENV)/.bench  ## measure against other libraries; one table of all figures in bench_output/
	@$(BIN)/python benchmarks/_all.py $(OPTIONS)

# GALLERY=0 runs no script of the gallery; scripts that have not changed since the last build are not run again.
docs: $(VENV)/.docs  ## build the documentation in docs/_build/html; warnings are errors
	@$(BIN)/python -m sphinx -q -W --keep-going -b html -d docs/_build/doctrees docs docs/_build/html
	@echo 'open docs/_build/html/index.html'

# For this Python and platform, and for all processors of a common level; other builds are pure Python.
wheel: $(VENV)/.test  ## build a wheel that brings its kernels compiled, in dist/
	@$(PIP) 'hatchling>=1.24'
	@TRELLIS_SHIP_KERNELS=1 $(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@ls -l dist/*.whl

# Some minutes: everything is compiled first.
test-wheel: wheel  ## install the wheel into a new environment and run the tour's first block: nothing may be compiled
	@$(BIN)/python scripts/check_wheel.py

test-sdist: $(VENV)/.test  ## build the source distribution in dist/, a wheel from it, and run tests from it
	@$(PIP) 'hatchling>=1.24'
	@$(BIN)/python scripts/check_sdist.py

lint: $(VENV)/.test  ## ruff, mypy and the direction of imports
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo > $(VENV)/imports.log || { cat $(VENV)/imports.log; exit 1; }

format: $(VENV)/.test  ## write the sources in the house style
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

clean:  ## remove the environment and everything that was made
	rm -rf $(VENV) .venv-oldest .venv-newest .venv-peers .coverage .numba_cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist demo_output bench_output fuzz_finds docs/_build docs/api/generated docs/gallery
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "Trellis needs Python 3.11 or newer as '$(PYTHON)'; name one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.demo: $(VENV)/.python pyproject.toml
	@echo 'installing trellis and what it needs into $(VENV) ...'
	@$(PIP) --editable '.[plot,speech]'
	@touch $@

$(VENV)/.test: $(VENV)/.python pyproject.toml
	@echo 'installing trellis, test and lint tools into $(VENV) ...'
	@$(PIP) --editable '.[test,lint]'
	@touch $@

$(VENV)/.bench: $(VENV)/.python pyproject.toml
	@echo 'installing trellis and the libraries to compare with into $(VENV) ...'
	@$(PIP) --editable '.[bench]'
	@touch $@

$(VENV)/.docs: $(VENV)/.python pyproject.toml
	@echo 'installing trellis and Sphinx into $(VENV) ...'
	@$(PIP) --editable '.[docs]'
	@touch $@
