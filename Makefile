# Rota's commands. `make` alone prints what there is.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
SEEDS  ?= 2000
COUNT  ?= 1000000
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup lock fmt lint types arch test check sim fuzz-cron crash bench clean

help: ## print the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): requirements-dev.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

setup: $(STAMP) ## make the environment from the hash-locked requirements

lock: $(STAMP) ## renew the locked requirements
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --no-emit-index-url --upgrade pyproject.toml -o requirements.txt
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --no-emit-index-url --upgrade pyproject.toml --group dev -o requirements-dev.txt

fmt: $(STAMP) ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(STAMP) ## check style
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP) ## check types
	$(BIN)/mypy

arch: $(STAMP) ## check that imports go down only
	$(BIN)/lint-imports

test: $(STAMP) ## run every test, the simulation and the crash tests
	$(BIN)/python -m pytest -n 2 $(ARGS)

fuzz-cron: $(STAMP) ## compare cron with the brute-force walker: COUNT=1000000
	$(BIN)/python tests/fuzz/fuzz_cron.py --count $(COUNT) --processes 2

bench: $(STAMP) ## measure the store beside bare sqlite3
	$(BIN)/python -m bench.sqlite_store $(ARGS)

check: lint types arch test ## all that a change must pass

clean: ## remove the environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
