# Two commands are the whole set-up: `make run` and `make test`. Both make .venv when it is missing or outdated.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
RUNS := .venv/runs
PYTEST := $(BIN)/pytest -n 2 --dist worksteal
QUICK := $(PYTEST) -m "not slow"

# One thread a process: results do not depend on the number of cores, and processes do not fight over them.
export OMP_NUM_THREADS = 1

.PHONY: run test test-quick test-processors docs bench reliability clean

run: $(RUNS)
	$(BIN)/holdfast run

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(QUICK) --cov --cov-report term
	$(PYTEST) -m slow --durations 10

# An answer in about a minute: all rooms, but nothing that starts processes or takes seconds. Tracing lines costs half
# as much again as these tests, so coverage is measured on them alone: what they reach is a lower bound for all tests.
test-quick: $(READY)
	$(BIN)/ruff check .
	$(QUICK)

# The numerical tests under every instruction set that this processor can pretend to have.
test-processors: $(READY)
	$(BIN)/python scripts/test_under_processors.py

# The documentation site, in site/; index.html opens from disk.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

bench: $(READY)
	$(BIN)/python -m bench

reliability: $(READY)
	$(BIN)/python -m reliability --effort 10
	$(BIN)/pytest -n 2 -m hypothesis --hypothesis-profile random

# What `make run` needs is little beside torch; everything else is for development.
$(RUNS): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[plots]'
	touch $@

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(RUNS) $@

clean:
	rm -rf .venv dist site holdfast-runs .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage
