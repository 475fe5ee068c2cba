# make demo       install everything, then show what kaput is for
# make test       install everything, then all checks and all tests
# make test-fast  the checks, and the quick ones of the tests without brokers, Spark and analysis: 90 s of CPU
# make times      how long the tests with real brokers take, one after the other, for docs/TESTED.md
# make soak-real  experiments with real brokers, each statement examined by the second opinion
# make soak       5,000 generated histories against the oracle; make fuzz: 10,000 damaged run folders and as many other files
# make tools      every tool of Kafka's, its Java clients, and every verb on a secured cluster
# make install    .venv with .venv/bin/kaput, Kafka's jars fetched, nothing run
# make check      lint, format, types, import contracts
# make bench      the benchmarks; make bench-quick: a short form of them
# make bench-reassign  200 topics get three replicas under load, killed ten times
# make reference  docs/RUN_FOLDER.md, FAULTS.md, tables of EXPECT.md and METRICS.md, and the JSON Schema of findings.json, from the code
# make lock       the requirements locked anew
# make site       the documentation as a site, src/kaput/site/index.html, which kaput docs opens
# make wheel      dist: wheels and sdists of kaput and kaput-lab, to be installed elsewhere
# make clean      everything that make has made here (not the cache of jars)

PYTHON ?= python3
UV_VERSION = 0.13.8

BIN = .venv/bin
# How tests are distributed: tests/conftest.py. Two workers for those with brokers: what CPU time they leave, the
# others take; a third one would only add a dozen idle JVMs. Those of processes and servers among the others often
# wait: there is room for a third worker on two cores.
PYTEST = $(BIN)/pytest -n 2 --dist loadscope
PYTEST_3 = $(BIN)/pytest -n 3 --dist loadscope
UV = $(BIN)/uv
# Packages are as the locks say and kaput itself is there; of the two stamps the wider stands for both.
RUN_STAMP = .venv/.installed
DEV_STAMP = .venv/.installed-dev
COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	--no-emit-index-url --no-emit-find-links

# What is compiled is kept where it can be: pytest rewrites the assertions of all tests and of kaput, which is a
# plugin of its, and would do so again in each worker, for seven seconds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: wheel site install demo test compiled test-brokers checked-others test-others test-all test-fast quick times soak soak-real fuzz tools check bench bench-quick bench-reassign reference java lock clean preflight setup setup-dev jars

install: setup

demo: setup
	$(BIN)/kaput demo

test: $(DEV_STAMP)
	$(MAKE) --no-print-directory --jobs=3 test-brokers checked-others

# What pytest compiles is compiled once, during the checks, and not by each of its workers; mistakes show when the
# tests run.
compiled: .venv/.compiled

.venv/.compiled: $(DEV_STAMP) $(shell find src tests -name '*.py')
	-@$(BIN)/pytest --collect-only -q tests >/dev/null 2>&1
	@touch $@

# Both at once: the tests with brokers wait, the checks and the others compute with what CPU time is left. Jars are
# fetched, which the tests of brokers need and some of the others, while the checks run.
test-brokers: jars compiled
	$(BIN)/pytest tests/functional -m "alone and not long"
	$(PYTEST) tests/functional -m "not alone and not tools and not long"

checked-others: check jars compiled
	$(MAKE) --no-print-directory test-others

test-others:
	LOW_PRIORITY=1 $(PYTEST_3) tests --ignore=tests/functional -m "not alone and not long"

# With what has a sibling above: other signals, ZooKeeper's mode of the same, other people's clients, copies by
# MirrorMaker, more generated histories; and every built-in, held to its title (tests/functional/test_builtins.py).
test-all: test
	$(BIN)/pytest tests/functional -m "alone and long"
	$(PYTEST) tests/functional -m "not alone and long"
	$(PYTEST) tests --ignore=tests/functional -m "long"
	$(MAKE) --no-print-directory tools

test-fast: $(DEV_STAMP)
	$(MAKE) --no-print-directory --jobs=2 check quick

# In one process: each worker would import and collect everything, for seven seconds of CPU.
quick: $(DEV_STAMP)
	$(BIN)/pytest tests/unit -m "not slow"

# Alone on a quiet machine, in a quarter of an hour.
times: setup-dev
	TIMES=docs/TESTED.md $(BIN)/pytest tests/functional -m "not tools and not long"

# Long, and so not part of the tests, which have a sample of either. SEED and COUNT are yours to set.
soak: SEED ?= 1
soak: COUNT ?= 5000
soak: setup-dev
	cd tests && ../$(BIN)/python -m property.soak --seed $(SEED) --count $(COUNT)

soak-real: SEED ?= 1
soak-real: SECONDS ?= 1200
soak-real: setup-dev
	cd tests && ../$(BIN)/python -m second_opinion.soak --seed $(SEED) --seconds $(SECONDS)

fuzz: SEED ?= 1
fuzz: COUNT ?= 10000
fuzz: setup-dev
	cd tests && ../$(BIN)/python -m fuzz.fuzz_evidence --seed $(SEED) --count $(COUNT)
	cd tests && ../$(BIN)/python -m fuzz.fuzz_inputs --seed $(SEED) --count $(COUNT)

tools: setup-dev
	$(BIN)/pytest tests/functional -m tools

check: $(DEV_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup-dev
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/recording.py
	$(BIN)/python benchmarks/brokers.py
	$(BIN)/python benchmarks/keep.py
	$(BIN)/python benchmarks/ledger.py --messages 1000000
	$(BIN)/python benchmarks/ledger.py --messages 50000000 --peers polars-everything,polars,polars-dense,duckdb,duckdb-dense --quick

bench-quick: setup-dev
	$(BIN)/python benchmarks/run.py --quick
	$(BIN)/python benchmarks/brokers.py --quick
	$(BIN)/python benchmarks/ledger.py --messages 1000000 --peers polars-everything,polars,duckdb --quick

bench-reassign: setup-dev
	$(BIN)/python benchmarks/reassign.py

# Strict: a link or an anchor that leads nowhere ends it. Not --quiet, which drops the warnings that are counted.
site: $(DEV_STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

wheel: $(DEV_STAMP)
	$(BIN)/python scripts/distributions.py dist

# The jars are looked at each time, which takes less than a second: their cache is the user's, not ours.
setup: $(RUN_STAMP)
	@$(BIN)/python -m kaput.cluster.setup

setup-dev: jars

jars: $(DEV_STAMP)
	@$(BIN)/python -m kaput.cluster.setup

# Java is missed at once, not after minutes of downloads.
preflight:
	@scripts/preflight.sh $(PYTHON)

$(UV): | preflight
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet uv==$(UV_VERSION)

# Where the tools for development are in, they stay.
$(RUN_STAMP): requirements.lock pyproject.toml $(UV) | preflight
	@if [ -e $(DEV_STAMP) ]; then $(MAKE) --no-print-directory $(DEV_STAMP); else $(MAKE) --no-print-directory packages LOCK=requirements.lock; fi
	@touch $@

$(DEV_STAMP): requirements-dev.lock pyproject.toml $(UV) | preflight
	@$(MAKE) --no-print-directory packages LOCK=requirements-dev.lock
	@touch $@ $(RUN_STAMP)

# Compiled here once: where Python may not write byte code (PYTHONDONTWRITEBYTECODE, a read-only install), each
# start of kaput and of each of its processes would compile some 280 modules again, for a second.
.PHONY: packages
packages:
	VIRTUAL_ENV=.venv $(UV) pip sync --compile-bytecode --require-hashes $(LOCK)
	VIRTUAL_ENV=.venv $(UV) pip install --quiet --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q src

reference: $(DEV_STAMP)
	$(BIN)/python scripts/reference.py

# Needs a JDK, of Java 17; the class is kept in the repository, so that users need none.
java: setup-dev
	$(BIN)/python scripts/compile_java.py

lock: $(UV)
	$(COMPILE) requirements.in --output-file requirements.lock
	$(COMPILE) requirements-dev.in --output-file requirements-dev.lock

clean:
	rm -rf .venv dist src/kaput/site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests scripts benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
