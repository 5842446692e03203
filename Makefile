# From a fresh clone this needs python 3.11+, Java 17 or 21 and make; everything else lands in .venv and in the jar cache.
.PHONY: help install jars jar browser demo test rewritten suite test-fast suite-fast lint format proof soak matrix bench docs dist pictures clean java
.DEFAULT_GOAL := help

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN := .venv/bin
STAMP := .venv/.installed
# Tests' modules are rewritten for their assertions: without a cache each process does it anew, for seven seconds.
export PYTHONDONTWRITEBYTECODE =
FAST := $(wildcard tests/unit tests/properties tests/contracts tests/architecture)

help: ## show the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1	/p' $(MAKEFILE_LIST) | expand -t 12

install: $(STAMP) ## make .venv with kafka-lake and airflow in it

$(STAMP): pyproject.toml constraints.txt
	@[ -n "$(PYTHON)" ] || { echo "make: no python 3.11 or newer in PATH. Install one, or run: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: $(PYTHON) is not python 3.11 or newer. Run: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv .venv || { echo "make: $(PYTHON) cannot make a venv (on Debian or Ubuntu: apt-get install python3-venv)" >&2; rm -rf .venv; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt uv
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python -c constraints.txt -e ".[spark,postgres,schema-registry,openlineage,msk]" --group dev
	@$(BIN)/python -m compileall -q airflow_kafka_lake
	@touch $@

java: $(STAMP)
	@$(BIN)/python -m airflow_kafka_lake.adapters.java

jars: java ## fetch and verify what Spark, the local Kafka and the local schema registry run on
	@$(BIN)/python -c 'from airflow_kafka_lake.adapters.jars.cache import JarSet, fetch; [fetch(JarSet(name), progress=print) for name in ("spark", "s3", "kafka-broker", "schema-registry")]'
	@$(BIN)/kafka-lake jars fetch >/dev/null

jar: jars ## build the shared consumer's jar of its Java source (needs the javac of Java 17)
	$(BIN)/python -m tests.consumer_jar

BROWSERS := chromium chromium-browser google-chrome
browser: # for the tests of pages: installed where that is possible without asking
	@for name in $(BROWSERS); do command -v $$name >/dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing Chromium for the tests of pages"; \
		{ apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium; } >/dev/null; \
	fi || true; \
	for name in $(BROWSERS); do command -v $$name >/dev/null && exit 0; done; \
	echo "make: no Chromium in PATH, so the tests of pages are skipped (on Debian or Ubuntu: apt-get install chromium)" >&2

demo: java ## real Kafka, real Airflow, the main job, the proof (ARGS="--exit --report FILE" for programs)
	$(BIN)/kafka-lake demo $(ARGS)

test: ## everything CI runs; what needs no package is fetched while it is installed
	@$(MAKE) --no-print-directory --jobs 4 lint suite

# What five processes would all do anew in a fresh clone, the assertions of the tests' modules, one does before them.
rewritten: $(STAMP)
	@ls tests/__pycache__/conftest.*-pytest-*.pyc >/dev/null 2>&1 || $(BIN)/pytest --collect-only -q $(ARGS) >/dev/null 2>&1 || true

# More processes than cores: much of the suite waits for brokers, drivers and Airflow.
suite: jars browser rewritten
	$(BIN)/pytest -n 5 --no-loadscope-reorder --durations 20 $(ARGS)

test-fast: $(STAMP) ## under a minute, no services
	@$(MAKE) --no-print-directory --jobs 2 lint suite-fast

# It leaves out by `--fast` what starts a service; -rfE: a list of all that was skipped would hide the rest.
suite-fast: $(STAMP)
	$(BIN)/pytest -n 2 --no-loadscope-reorder --fast -m "not slow" -rfE $(FAST) $(ARGS)

lint: $(STAMP) ## style, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## let ruff write the style
	@$(BIN)/ruff check --quiet --fix --exit-zero . >/dev/null
	$(BIN)/ruff format .
	$(BIN)/ruff check .

proof: jars browser ## the nightly, hours: all that `make test` leaves out; goes on where it was stopped (ARGS="--list")
	$(BIN)/python -m tests.proof $(ARGS)

soak: jars ## faults on real parts (ARGS="--minutes 30 --seed 7"; --list shows the faults)
	$(BIN)/python tests/faults/soak.py $(ARGS)

matrix: jars ## every failpoint in every mode (ARGS="--all", or "--real" with real Spark)
	$(BIN)/python -m tests.faults.run_matrix $(ARGS)

bench: jars ## the benchmark, hours: this package against others, and its parts (ARGS="--only race --workload quiet")
	$(BIN)/python -m bench.run $(ARGS)

SITE := site
# Of its own: the site needs no package of ours.
WRITER := build/docs/bin
docs: ## the documents as a site for a browser, in site/; a dead link ends it
	@[ -x $(WRITER)/python ] || $(PYTHON) -m venv build/docs
	@$(WRITER)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt uv
	@$(WRITER)/uv pip install --quiet --python $(WRITER)/python -c constraints.txt --group docs
	@$(WRITER)/python docs/website.py $(SITE) && echo "open $(SITE)/index.html"

DIST := dist
dist: $(STAMP) ## sdist and wheel of the commit, built twice and compared, with digests and the bill of materials
	@$(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt --group dist
	@$(BIN)/python -m tests.distributions $(DIST) && ls -l $(DIST)

pictures: jars browser ## take the documents' pictures anew: of Airflow's page in a real browser, and of a terminal (15 minutes)
	KAFKA_LAKE_IMAGES=$(CURDIR)/docs/images $(BIN)/pytest -n 0 --whole $(wildcard tests/integration/test_airflow_page*.py)
	$(BIN)/python docs/pictures.py

clean: ## remove .venv, caches and build results (the jar cache stays)
	rm -rf .venv dist build site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
