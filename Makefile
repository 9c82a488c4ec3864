# Two commands are the whole set-up: `make run` and `make test`. Both make .venv when it is missing or outdated.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

# One thread a process: results do not depend on the number of cores, and processes do not fight over them.
export OMP_NUM_THREADS = 1

.PHONY: run test bench reliability clean

run: $(READY)
	$(BIN)/holdfast run

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist worksteal --durations 10

bench: $(READY)
	$(BIN)/python -m bench

reliability: $(READY)
	$(BIN)/python -m reliability --effort 10

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv dist holdfast-runs .mypy_cache .pytest_cache .ruff_cache .hypothesis
