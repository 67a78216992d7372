# Two commands on a fresh machine: `make demo` and `make test`.
VENV ?= .venv
PYTHON ?= python3
# Test processes side by side, one thread each; on two cores three, since some wait for others.
JOBS ?= 3
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

define NEW_VENV
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	"Expected Python 3.11 or newer (got %d.%d); name one with: make PYTHON=python3.12" % sys.version_info[:2])'
$(PYTHON) -m venv $(VENV)
$(PIP_INSTALL) torch
endef

.PHONY: demo test lint types unit docs clean

# The demo waits for nothing that only tests and pages need.
demo: $(if $(wildcard $(VENV)/.installed),$(VENV)/.installed,$(VENV)/.demo)
	$(BIN)/grama demo

# Types are checked while the tests run, which often wait for processes of their own.
test: lint
	$(MAKE) --no-print-directory -j 2 types unit

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

# What one process has compiled, the others and the next run need not.
unit: export OMP_NUM_THREADS = 1
unit: export PYTHONDONTWRITEBYTECODE =
unit: $(VENV)/.installed
	$(BIN)/python -m pytest --doctest-modules src tests -m "not long" \
		-n $(JOBS) --dist loadfile --no-loadscope-reorder --durations 25 --cov --cov-report=
	$(BIN)/python tests/check_coverage.py

# Pages in docs/_build/html; a warning is an error.
docs: $(VENV)/.installed
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

# Brought up to date when one of the two files changes; marked only when all of it is there.
$(VENV)/.demo: pyproject.toml constraints.txt
	$(NEW_VENV)
	$(PIP_INSTALL) -e ".[train]" "matplotlib>=3.8" "Jinja2>=3.1"
	touch $@

$(VENV)/.installed: pyproject.toml constraints.txt
	$(NEW_VENV)
	$(PIP_INSTALL) -e ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) build dist docs/_build docs/_generated src/*.egg-info .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis
