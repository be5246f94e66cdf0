# `make` lists what there is. Needs Python 3.11 or newer and nothing else: everything goes into .venv.

PYTHON ?= python3
# Two more than there are cores: many tests wait for something. Those of quick seldom do, and each worker imports all.
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
WORKERS ?= $(shell n=$$(( $(CORES) + 2 )); echo $$(( n < 4 ? n : 4 )))
QUICK_WORKERS ?= $(shell n=$$(( $(CORES) + 1 )); echo $$(( n < 4 ? n : 4 )))
# To look for them in all files would take longer than most of them take.
ALONE = $(shell grep -rl --include='*.py' 'pytest\.mark\.alone' tests)
TIMES ?= 20
MINUTES ?= 10

# Where it is set, as in many containers, each of the hundreds of processes that the tests start would compile anew
# all that it imports.
export PYTHONDONTWRITEBYTECODE :=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.PHONY: help serve quick test test-all test-rest pytest check lint audit fuzz torture soak bench constraints requirements manifests examples client image-test clean

help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

serve: $(VENV)/.installed ## install and start the service on 127.0.0.1:8000, with its data in ./data
	@exec $(BIN)/novikoff serve

# Three tiers of tests: tests/support/tiers.py says which test is in which.
quick: $(VENV)/.installed-dev ## a first answer in 90 s: ruff, mypy, import-linter and the tests that start no processes
	@$(MAKE) --no-print-directory -j2 lint pytest TIER=quick WORKERS=$(QUICK_WORKERS)

test: ## what a contributor runs: installs what it needs, then all checks and most tests; ARGS='-k …' goes to pytest
	@$(MAKE) --no-print-directory -j2 $(VENV)/.installed-dev $(VENV)/.programs
	@$(MAKE) --no-print-directory -j2 check pytest TIER=test

test-all: test test-rest ## everything that is promised: make test, then the tests that take long or need more programs

test-rest: ## the tests of test-all that are not in test
	@$(MAKE) --no-print-directory -j3 $(VENV)/.installed-dev-all $(VENV)/.programs-all $(VENV)/.generator $(VENV)/.oldest-uvicorn
	@$(MAKE) --no-print-directory pytest TIER='all --rest-of test'

# Tests that measure their own process run when all others are over. Status 5: none was chosen.
pytest: $(VENV)/.installed-dev $(VENV)/.compiled
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m 'not alone' --tier $(TIER) $(ARGS) || [ $$? = 5 ]
	@$(BIN)/python -m pytest -q -m alone --tier $(TIER) $(or $(ARGS),$(ALONE)) || [ $$? = 5 ]

check: lint ## the static checks alone
	$(call run,hadolint,$(BIN)/hadolint Dockerfile)
	$(call run,compose schema,$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml)

lint: $(VENV)/.installed-dev
	$(call run,ruff check,$(BIN)/ruff check .)
	$(call run,ruff format,$(BIN)/ruff format --check .)
	$(call run,mypy,$(BIN)/mypy --strict)
	$(call run,import-linter,$(BIN)/lint-imports --no-logo)

# Not part of `check`: it asks a database of known vulnerabilities on the network.
audit: $(VENV)/.installed-audit ## compare the pinned versions with known vulnerabilities; needs the network
	@$(BIN)/pip-audit --requirement constraints.txt --no-deps --disable-pip --strict

fuzz: $(VENV)/.installed-dev-all ## made-up requests and flipped bits, TIMES=20 times as many as make test; then hostile ones for MINUTES=10
	@FUZZ_TIMES=$(TIMES) $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --timeout 0 \
	    tests/fuzz tests/journal/sqlite/test_flips.py $(ARGS)
	@$(BIN)/python -m tests.fuzz.resources --minutes $(MINUTES)

torture: $(VENV)/.installed-dev ## power cuts, kills and damage at thousands of places of recorded runs; ARGS="--points 9000 --seed 2"
	@$(BIN)/python -m tests.torture $(ARGS)
	@DAMAGE_CASES=200 $(BIN)/python -m pytest -q -n $(WORKERS) --tier all tests/e2e/test_damaged_servers.py

soak: $(VENV)/.installed-dev ## mixed load with kills and restarts for MINUTES=10, and an account; ARGS="--kills 100", or "--replicas 3" on a cluster
	@$(BIN)/python -m tests.soak --minutes $(MINUTES) $(ARGS)

bench: $(VENV)/.installed-bench ## measure the service beside its peers; ARGS=--quick only tries the harness
	@$(BIN)/python -m bench $(ARGS)

# With the oldest Python that is supported: the newest versions that it can have suit the others too.
constraints: ## pin the newest versions of everything in constraints.txt; needs Python 3.11
	@$(PYTHON) -c 'import sys; sys.exit("pins are made with Python 3.11: make constraints PYTHON=python3.11" \
	    if sys.version_info[:2] != (3, 11) else 0)'
	@clean=$$(mktemp -d) && trap 'rm -rf "$$clean"' EXIT && $(PYTHON) -m venv "$$clean" && \
	    "$$clean"/bin/python -m pip --disable-pip-version-check --quiet install '.[dev-all]' && \
	    "$$clean"/bin/python -m pip freeze --exclude novikoff > "$$clean"/pins && \
	    { echo '# What the tests were run with. Made by `make constraints`.'; cat "$$clean"/pins; } > constraints.txt

requirements: $(VENV)/.made ## pin what the image installs with hashes, in deploy/requirements.txt; after constraints
	@$(BIN)/python deploy/make_requirements.py

manifests: $(VENV)/.installed-dev-all ## render the chart of deploy/helm into the plain manifests of deploy/kubernetes
	@deploy/kubernetes/manifests.sh "$(CURDIR)/$(BIN)/helm"

examples: $(VENV)/.installed-dev ## record what the service answers to the example requests of its OpenAPI document
	@$(BIN)/python -m tests.web.routes.recorded_examples

client: $(VENV)/.installed-dev ## make novikoff/client.py, the waiting client, out of novikoff/async_client.py
	@$(BIN)/python -m tests.novikoff.unasync

image-test: $(VENV)/.installed-dev-all ## build the image and run it, and every profile of the compose file; as root, with podman
	@$(BIN)/python -m tests.image.prepare
	@$(BIN)/python -m pytest -q -rP --timeout 900 $(ARGS) tests/image

clean: ## remove .venv and every cache; never ./data
	@rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.made:
	@command -v $(PYTHON) >/dev/null || \
	    { echo "Python 3.11 or newer is needed, and there is no $(PYTHON)." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, and $(PYTHON) is %d.%d:" \
	    " name another with make PYTHON=python3.12 ..." % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	@echo "making $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.made pyproject.toml constraints.txt
	@echo "installing ..."
	@$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.made pyproject.toml constraints.txt
	@echo "installing, with what the tests need ..."
	@$(PIP) install --no-compile -c constraints.txt -e '.[dev]'
	@touch $(VENV)/.installed $@

$(VENV)/.installed-dev-all: $(VENV)/.installed-dev
	@echo "installing, with what the rest of the tests need ..."
	@$(PIP) install --no-compile -c constraints.txt -e '.[dev-all]'
	@touch $@

$(VENV)/.installed-bench: $(VENV)/.installed-dev bench/requirements.txt
	@echo "installing, with what the benchmarks compare with ..."
	@$(PIP) install -c constraints.txt -r bench/requirements.txt
	@touch $@

# Not pinned: an auditor should know the latest.
$(VENV)/.installed-audit: $(VENV)/.made
	@echo "installing pip-audit ..."
	@$(PIP) install --upgrade pip-audit
	@touch $@

# All tests are imported once: else every worker would compile them for itself, all at the same time.
$(VENV)/.compiled: $(VENV)/.installed-dev
	@$(BIN)/python -m pytest -q --collect-only --tier test >/dev/null 2>&1 || true  # the run shows what is wrong
	@touch $@

# It wants an older typer than we do, so it lives in an environment of its own.
$(VENV)/.generator: $(VENV)/.made tests/web/routes/generator.txt
	@echo "installing a generator of clients ..."
	@$(PYTHON) -m venv $(VENV)/generator
	@$(VENV)/generator/bin/python -m pip --disable-pip-version-check --quiet install --no-compile -r tests/web/routes/generator.txt
	@touch $@

# The oldest that pyproject.toml allows, beside the one that is installed.
$(VENV)/.oldest-uvicorn: $(VENV)/.made pyproject.toml
	@echo "installing an older uvicorn ..."
	@rm -rf $(VENV)/oldest-uvicorn
	@$(PIP) install --no-deps --target $(VENV)/oldest-uvicorn $$(sed -n 's/.*"uvicorn>=\([0-9.]*\),.*/uvicorn==\1/p' pyproject.toml)
	@touch $@

# Programs that the tests use, as command=packages. Where one cannot be installed, this says so, and the tests that need
# it are skipped, or fail with CI=true.
$(VENV)/.programs: $(VENV)/.made
	$(call programs,chromium=chromium cc=gcc+libc6-dev)
	@touch $@

$(VENV)/.programs-all: $(VENV)/.programs
	$(call programs,prometheus=prometheus haproxy=haproxy nginx=nginx-light caddy=caddy)
	@touch $@

missing = $$(for program in $(1); do command -v $${program%=*} >/dev/null || echo $${program\#*=} | tr + ' '; done)
programs = @packages="$(missing)"; \
    if [ "$$packages" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
        echo "installing" $$packages "..."; apt-get update -qq >/dev/null 2>&1; \
        apt-get install -y -qq --no-install-recommends $$packages >/dev/null 2>&1 || true; packages="$(missing)"; \
    fi; \
    [ -z "$$packages" ] || echo "programs are missing: apt-get install" $$packages

# run: one line a check, and its output only if it fails.
run = @if out=$$($(2) 2>&1); then printf '  %-16sok\n' '$(1)'; \
    else printf '  %-16sfailed\n%s\n' '$(1)' "$$out"; exit 1; fi
