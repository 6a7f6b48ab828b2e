# `make` lists the targets. `make demo` and `make test` set up all they need, once; after that no network is touched.

PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	$$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$python && break; \
	done)
FORMAT ?= iceberg
# A line of Spark has a virtual environment of its own (docs/decisions/0027). Hudi has no build for Spark 4.
LINE ?= $(if $(filter hudi,$(FORMAT)),3.5,4.1)
VENV := .venv$(if $(filter-out 4.1,$(LINE)),-$(LINE))
LOCK := requirements/dev$(if $(filter-out 4.1,$(LINE)),-$(LINE)).txt
BIN := $(VENV)/bin
# Python compiles a module when it is first imported; most are never imported. The many processes that tests start
# must find the result, so a setting of the environment that keeps Python from writing it is not passed on.
unexport PYTHONDONTWRITEBYTECODE
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile
LOCKED = $(INSTALL) --require-hashes --requirement

.PHONY: help setup servers demo demo-live test gate fast lines line test-all long lint types check docs site bench lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/installed $(VENV)/jars ## Make .venv with the locked dependencies, and fetch the jars (demo and test do it)

demo: setup ## Mirror a small changing database into a lake (FORMAT=iceberg, delta or hudi), with a crash on the way, and compare
	$(BIN)/lakeward demo --force --format $(FORMAT)

demo-live: setup servers ## Let a shop in PostgreSQL flow through Debezium and a broker into a lake, until Ctrl-C
	@$(BIN)/python tests/support/live_demo.py

test: ## Lint, types, all tests without Spark, and a lap of each table format: a quarter of an hour
	$(call measured,LAKEWARD_LAP=1)

gate: ## What CI runs: all tests but the long ones, on both lines of Spark: half an hour
	$(call measured)

# Sets up and checks style, then runs all else side by side, with these settings; says in the end how long each part took.
# The other line is set up beside, once lakeward is installed here: pip builds it in the same folder.
define measured
	+@mkdir -p build; rm -f build/times; began=$$(date +%s); \
	$(MAKE) $(VENV)/installed && { { $(MAKE) setup LINE=3.5 && \
		echo "set-up of line 3.5 $$(($$(date +%s) - began))" >>build/times; } >build/set-up-3.5.log 2>&1 & \
	$(MAKE) setup servers && echo "set-up $$(($$(date +%s) - began))" >>build/times && $(MAKE) lint; code=$$?; \
	wait $$! || { cat build/set-up-3.5.log; code=1; }; test $$code = 0; } && \
	$(1) $(MAKE) --jobs=3 --keep-going types fast lines; code=$$?; \
	echo "whole $$(($$(date +%s) - began))" >>build/times; \
	echo "Seconds of each part; those behind lint run side by side:"; \
	awk '{ time = $$NF; $$NF = ""; printf "%-22s %6d\n", $$0, time }' build/times; exit $$code
endef

# Runs a command, and notes for that table what it is and how many seconds it took.
timed = @mkdir -p build; began=$$(date +%s); $(2); code=$$?; \
	echo "$(1) $$(($$(date +%s) - began))" >>build/times; exit $$code

# They take their share of the cores, so that they end with the others. What they say comes at their end, as one piece.
fast: setup ## Run the tests without Spark
	$(call timed,tests without Spark,$(BIN)/python -m pytest -m "not spark" --durations=40 >build/fast.log 2>&1; \
		code=$$?; cat build/fast.log; (exit $$code))

# Python and Java wait for each other, so that one process leaves a core idle for a third of the time. The default line
# runs in two, the other one beside them with what they do not take; these two say all at their end.
lines: setup ## Run the tests on Spark, both lines side by side, whatever the others find
	@mkdir -p build
	@{ $(MAKE) setup LINE=3.5 && nice -n 5 $(MAKE) line LINE=3.5; } >build/line-3.5.log 2>&1 & second=$$!; \
	$(MAKE) line PART=pipelines >build/pipelines.log 2>&1 & pipelines=$$!; \
	$(MAKE) line PART=adapters; code=$$?; \
	wait $$pipelines; code=$$((code | $$?)); wait $$second; code=$$((code | $$?)); \
	cat build/pipelines.log build/line-3.5.log; exit $$code

line: setup ## Run the tests of a line on Spark (LINE=3.5 has Hudi); with LAKEWARD_LAP=1, a lap of each format
	$(call timed,line $(LINE) $(PART),$(BIN)/python -m pytest -m spark --durations=40 $(TESTS_OF_$(PART)))

# Two parts of them that take about as long: those of whole pipelines, and those of adapters with the laws, the broken
# adapters and the adopted tables.
PIPELINES = $(filter-out tests/test_laws% tests/test_broken% tests/test_adopt%,$(wildcard tests/test_*.py))
TESTS_OF_pipelines = $(PIPELINES)
TESTS_OF_adapters = $(addprefix --ignore=,$(PIPELINES))

test-all: ## Run everything, also what the gate has no time for: hours
	$(call measured,LAKEWARD_LONG=1)

long: setup ## Run what the gate has no time for: 2,000 endpoints of DMS, and examples that nobody saw yet
	LAKEWARD_DRAWS=2000 $(BIN)/python -m pytest tests/adapters/sources/dms/test_endpoints.py
	LAKEWARD_LONG=1 LAKEWARD_EXAMPLES=new $(BIN)/python -m pytest tests/core tests/test_laws*
	LAKEWARD_LONG=1 $(BIN)/python -m pytest tests/test_cases_of_messages.py tests/test_plain_files.py tests/test_kills.py \
		tests/test_two_machines.py tests/test_broken_formats.py tests/test_adopt.py tests/test_equivalence.py \
		tests/test_hundreds_of_commits.py tests/test_example_plugins.py tests/adapters/formats/iceberg/test_rest.py \
		tests/test_disk_full.py tests/test_snapshots.py tests/test_joined.py tests/test_rows_in_part.py \
		tests/test_renamed_columns.py tests/test_rollback.py tests/test_less_remembered.py tests/test_histories.py \
		tests/test_facts.py tests/test_lateness.py tests/test_restarted_logs.py tests/test_refused_files.py \
		tests/test_headers.py tests/test_path_columns.py tests/test_messages_of_other_tables.py \
		tests/test_live_demo.py tests/test_live_databases.py tests/adapters/sources/kafka/test_cases.py \
		tests/adapters/sources/kafka/test_registries.py tests/test_packaged_jobs.py tests/test_airflow.py

servers: setup ## Fetch the broker and Connect, and install the databases that tests start, as root on Debian (test does it)
	@$(BIN)/python tests/support/brokers.py || echo "The broker or Kafka Connect is missing: tests that start one are skipped, unless LAKEWARD_SERVERS=required"
	@PATH="$$PATH:/usr/sbin"; \
	if ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && command -v mariadbd >/dev/null; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		export DEBIAN_FRONTEND=noninteractive; \
		apt-get update -qq && apt-get install -qq -y --no-install-recommends postgresql mariadb-server >/dev/null; \
	else echo "PostgreSQL or MariaDB is missing: tests that start one are skipped, unless LAKEWARD_SERVERS=required"; \
	fi

check: lint types ## Run lint and types

lint: setup ## Check style (ruff), who may import whom (import-linter), spelling (codespell) and dead code (vulture)
	$(call timed,lint,$(BIN)/ruff check && PYTHONPATH=.dev $(BIN)/lint-imports && $(BIN)/codespell && $(BIN)/vulture)

types: setup ## Check types (mypy --strict)
	$(call timed,types,$(BIN)/mypy)

docs: setup ## Write docs/reference/settings.md from the models of the settings
	$(BIN)/python -m lakeward.entrypoints.settings.reference > docs/reference/settings.new
	mv docs/reference/settings.new docs/reference/settings.md

site: .venv-docs/installed ## Build the site of docs/ into build/site; fails where a link or an anchor leads nowhere
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict

bench: setup ## Measure against the naive job, and Hudi on Spark 3.5; fails where a target is missed
	$(BIN)/python benchmarks/run.py; code=$$?; \
	$(MAKE) setup LINE=3.5 && .venv-3.5/bin/python benchmarks/run.py --phase 8,9,10 && exit $$code

lock: ## Resolve the dependencies anew, from pyproject.toml into requirements/ (needs the network)
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	build/lock/bin/uv pip compile --quiet $(COMPILE) --group build --output-file requirements/build.txt
	build/lock/bin/uv pip compile --quiet $(COMPILE) pyproject.toml --extra spark --extra s3 --extra kafka --extra msk --extra delta --extra hudi --group dev --output-file requirements/dev.txt
	build/lock/bin/uv pip compile --quiet $(COMPILE) pyproject.toml --extra spark-3.5 --extra s3 --extra kafka --extra hudi --group dev --output-file requirements/dev-3.5.txt
	build/lock/bin/uv pip compile --quiet $(COMPILE) --group airflow --output-file requirements/airflow.txt
	build/lock/bin/uv pip compile --quiet $(COMPILE) --group docs --output-file requirements/docs.txt
	build/lock/bin/uv pip compile --quiet $(COMPILE_JOB) --extra spark --extra s3 --extra kafka --extra msk --extra delta --constraint requirements/dev.txt --output-file entrypoints/job_package/lock-4.1.txt
	build/lock/bin/uv pip compile --quiet $(COMPILE_JOB) --extra spark-3.5 --extra s3 --extra kafka --extra msk --extra delta --extra hudi --constraint requirements/dev-3.5.txt --output-file entrypoints/job_package/lock-3.5.txt

clean: ## Remove what the targets made here; the jars stay in the user's cache
	rm -rf .venv .venv-3.5 .venv-docs build dist lakeward-demo lakeward-live .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache

COMPILE = --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command "make lock"
# What `lakeward package` takes: the versions that are tested, without those that a platform of AWS brings.
COMPILE_JOB = $(COMPILE) pyproject.toml --no-emit-package pyspark --no-emit-package py4j

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "lakeward needs Python 3.11, 3.12 or 3.13, and none is on the PATH." \
		"Install one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments." \
		"On Debian and Ubuntu: apt install $(notdir $(PYTHON))-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# What builds comes first, so that pyspark and lakeward are built with it and not with what pip would fetch.
$(VENV)/installed: $(VENV)/bin/python requirements/build.txt $(LOCK) pyproject.toml
	$(LOCKED) requirements/build.txt
	$(LOCKED) $(LOCK) --no-build-isolation
	$(INSTALL) --no-build-isolation --editable .
	@touch $@

# It has MkDocs and its theme alone. The theme is maintained until May 2027; Zensical, its successor, reads mkdocs.yml.
.venv-docs/installed: requirements/docs.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement $<
	@touch $@

$(VENV)/jars: adapters/spark/session/jars-$(LINE).toml | $(VENV)/installed
	$(BIN)/lakeward jars fetch iceberg sqlite delta postgresql mariadb s3 $(if $(filter 3.5,$(LINE)),hudi)
	@touch $@
