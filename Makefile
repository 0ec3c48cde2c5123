# Rota's commands. `make` alone prints what there is.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
SEEDS  ?= 2000
COUNT  ?= 1000000
PORT   ?= 8080
KILLS  ?= 500
CUTS   ?= 5000
STAMP  := $(VENV)/.installed
RUNTIME := $(VENV)/.runtime
UI     := src/rota/api/ui_files/index.html
UI_SOURCES := $(wildcard ui/package*.json ui/build.mjs) $(shell find ui/src -type f 2>/dev/null)
# Names, versions and hashes only: the addresses of package indexes are left out.
COMPILE := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --upgrade

# Hundreds of short processes run in the tests; without compiled files each would compile all of Rota first.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help address setup lock ui ui-check run demo screenshots fmt lint types arch test test-roles test-pythons check sim fuzz-cron fuzz-http attack-http crash prove bench guard docs audit containers clean

help: ## print the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# What `make run` needs: Rota and its own requirements, without the tools of development.
$(RUNTIME): requirements.txt requirements-build.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python tools/install.py --without-uv requirements.txt requirements-build.txt
	@touch $@

$(STAMP): requirements-dev.txt requirements-install.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python tools/install.py requirements-dev.txt
	@touch $@ $(RUNTIME)

setup: $(STAMP) ## make the environment from the hash-locked requirements

lock: $(STAMP) ## renew the locked requirements
	$(COMPILE) pyproject.toml -o requirements.txt
	$(COMPILE) pyproject.toml --group dev -o requirements-dev.txt
	$(COMPILE) pyproject.toml --extra postgres --extra mysql --extra redis --extra encryption -o requirements-container.txt
	$(COMPILE) --group build -o requirements-build.txt
	$(COMPILE) --group install -o requirements-install.txt
	$(COMPILE) --group ui -o requirements-ui.txt
	$(COMPILE) --group audit -o requirements-audit.txt
	$(COMPILE) bench/peers/requirements.in -o bench/peers/requirements.txt

# The built dashboard; Node comes from PATH or from requirements-ui.txt.
$(UI): $(UI_SOURCES) tools/build_ui.py | $(RUNTIME)
	@$(BIN)/python tools/build_ui.py
	@touch $@

ui: $(UI) ## build the dashboard

ui-check: $(STAMP) ## check the dashboard's types and run its unit tests
	@$(BIN)/python tools/build_ui.py --with-tools
	@touch $(UI)

# Printed before the environment is made, which takes most of the first minute.
address:
	@echo "Dashboard: http://127.0.0.1:$(PORT)/ui"

run: address $(RUNTIME) $(UI) ## start Rota with the demo app and the dashboard on http://127.0.0.1:8080
	@echo "Dashboard: http://127.0.0.1:$(PORT)/ui    (with three weeks of history: make demo)"
	@if [ "$(PORT)" != 8080 ]; then echo "First, in the other terminal: export ROTA_API_URL=http://127.0.0.1:$(PORT)"; fi
	@echo "Rota is starting with the demo app, whose schedules make jobs every few seconds. In another terminal, try:"
	@echo "  $(BIN)/rota submit --type send_email --payload '{\"to\":\"user@example.com\"}' --wait"
	@echo "  $(BIN)/rota submit --type charge_card --payload '{\"amount\":10}'"
	@echo "  $(BIN)/rota submit --type gen_report --cron \"*/5 * * * *\""
	@echo "  $(BIN)/rota jobs list"
	@echo "  curl http://127.0.0.1:$(PORT)/stats        and the API's own pages: http://127.0.0.1:$(PORT)/docs"
	@echo "Stop it with Ctrl-C: running jobs may finish."
	@cd examples/demo && exec ../../$(BIN)/rota standalone --port $(PORT) --db ../../demo.db --app shop:app \
		--queues default,orders,payments,mail,media,reports

demo: address $(RUNTIME) $(UI) ## the same with three workers and three weeks of history, on a store of its own
	@echo "Dashboard: http://127.0.0.1:$(PORT)/ui"
	@echo "Stop it with Ctrl-C. Its store is demo-history.db; remove the file to begin anew."
	@exec tools/demo $(BIN) $(PORT)

screenshots: $(STAMP) $(UI) ## take the pictures of the dashboard for README and docs: FOLDER=… writes every page there
	@$(BIN)/python tools/screenshots.py $(FOLDER)

fmt: $(STAMP) ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(STAMP) ## check style
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP) ## check types: all by mypy, the Python API by pyright too
	$(BIN)/mypy
	$(BIN)/pyright

arch: $(STAMP) ## check that imports go down only
	$(BIN)/lint-imports

test: $(STAMP) ui-check ## run every test, the simulation and the crash tests
	@tools/servers
	@tools/run_tests $(BIN)/python $(ARGS)

test-roles: $(STAMP) ## run the tests of all stores with the database roles of `rota db grants`
	@tools/servers
	ROTA_TEST_LIMITED=1 $(BIN)/python -m pytest -q -n 2 tests/conformance/stores -k "not reference" $(ARGS)

test-pythons: ## run every test on each supported Python that this machine has
	@tools/pythons | while read -r version python; do \
		echo "== Python $$version: $$python"; \
		$(MAKE) test PYTHON="$$python" VENV=".venv-$$version" ARGS="$(ARGS)" </dev/null || exit 1; \
	done

sim: $(STAMP) ## run the simulation: SEEDS=2000, or replay one with SEED=n (CAST=models|loops|http)
	PYTHONPATH=tests $(BIN)/python -m simulation $(if $(SEED),--seed $(SEED),--seeds $(SEEDS) --processes 2) $(if $(CAST),--cast $(CAST))

crash: $(STAMP) ## kill a writing process KILLS times, cut the power CUTS times, let each call to the disk fail
	PYTHONPATH=tests $(BIN)/python -m crash.kill --kills $(KILLS)
	PYTHONPATH=tests $(BIN)/python -m crash.power_cut --cuts $(CUTS)
	ROTA_CRASH_EVERY=1 $(BIN)/python -m pytest -q tests/crash/test_failing_disk.py

prove: $(STAMP) ## the long proofs with real processes: NAMES="stopped-http recurring …"
	PYTHONPATH=tests $(BIN)/python -m proofs $(NAMES) $(ARGS)

attack-http: $(STAMP) ## attack an API server with endless trailers, slow readers and slow sockets: ATTACKS="trailers …"
	PYTHONPATH=tests $(BIN)/python -m fuzz.attack_http $(ATTACKS)

fuzz-http: $(STAMP) ## send mutated requests to an API server for SECONDS=180, or replay one with SEED=n CASE=n
	PYTHONPATH=tests $(BIN)/python -m fuzz.fuzz_http $(if $(SEED),--seed $(SEED)) $(if $(CASE),--case $(CASE),--seconds $(or $(SECONDS),180))

fuzz-cron: $(STAMP) ## compare cron with the brute-force walker: COUNT=1000000
	$(BIN)/python tests/fuzz/fuzz_cron.py --count $(COUNT) --processes 2

BENCH = bench $(if $(STORES),--stores $(STORES)) $(if $(PEERS),--peers $(PEERS)) $(if $(WORKLOADS),--workloads $(WORKLOADS))
BENCH_LOADS = bench.loads $(LOADS) $(if $(STORES),--stores $(STORES))

bench: $(STAMP) ## measure Rota: STORES=sqlite,postgres WORKLOADS=w1,w2 LOADS=w7,w10 PEERS=pgqueuer, or a store by itself: STORE=mysql
	PYTHONPATH=tests:. $(BIN)/python -m $(if $(STORE),bench.$(STORE)_store,$(if $(LOADS),$(BENCH_LOADS),$(BENCH))) $(ARGS)

guard: $(STAMP) ## record the costs of the hot paths anew; tests compare with them
	@tools/servers
	PYTHONPATH=tests $(BIN)/python -m guard

docs: $(STAMP) ## write the reference pages from the code
	$(BIN)/python tools/reference.py

$(VENV)-audit/.installed: requirements-audit.txt | $(STAMP)
	$(PYTHON) -m venv $(VENV)-audit
	$(VENV)-audit/bin/python -m pip install --quiet --require-hashes -r requirements-audit.txt
	@touch $@

audit: $(VENV)-audit/.installed ## check source and dependencies for known weaknesses, and list all components (sbom.json)
	@tools/audit $(VENV)-audit sbom.json

containers: ## build the image and try every profile of compose.yaml with docker or podman: PROFILES="embedded …"
	tools/containers $(PROFILES)

check: lint types arch test ## all that a change must pass

clean: ## remove the environment and caches
	rm -rf .venv .venv-* ui/node_modules src/rota/api/ui_files .mypy_cache .ruff_cache .pytest_cache .hypothesis
