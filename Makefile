# make demo: install and watch the loop turn. make test: everything that CI checks. make help: the rest.
PYTHON ?= python3
EXTRA ?= cpu
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed-$(EXTRA)
DEBIAN := g++ git chromium
DEBIAN_SLURM := slurm-wlm munge slurmdbd mariadb-server

.PHONY: help install demo test lint unit integration soak slurm slurm-short system docs study clean

help:
	@echo "make demo     create .venv, install, run the whole loop on this machine (+experiment=rods_tiny)"
	@echo "make test     lint, types, import walls and all tests"
	@echo "make soak     nightly: one run after another killed 300 times, each compared with an undisturbed one (KILLS=300)"
	@echo "make slurm    nightly: all tests on a private real Slurm (as root; installs $(DEBIAN_SLURM)); make test has the short ones"
	@echo "make docs     the documentation as a site in site/, every link checked"
	@echo "make study    RODS beside other curricula in the small: the runs that are missing, for 4 hours (HOURS=4); writes docs/study.md"
	@echo "make install  only create .venv and install (EXTRA=cpu, the default, or EXTRA=gpu)"
	@echo "make clean    remove .venv and caches; never touches runs/"

install: $(STAMP)

$(STAMP): setup.cfg pyproject.toml tools/install.sh
	@bash tools/install.sh "$(PYTHON)" "$(VENV)" "$(EXTRA)"
	@touch $@

demo: $(STAMP)
	$(BIN)/python launch.py +experiment=rods_tiny
	@cat tools/after_demo.txt

test: system $(STAMP) lint unit integration slurm-short

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

unit: $(STAMP)
	$(BIN)/pytest -q -n $(WORKERS) --dist worksteal tests/unit --ignore tests/unit/test_tracking.py
	@# W&B keeps one service for a whole process: after other tests in it, that service ends as it starts
	$(BIN)/pytest -q tests/unit/test_tracking.py

integration: $(STAMP)
	$(BIN)/pytest -q tests/integration

soak: $(STAMP)
	cd tests && ../$(BIN)/python -m soak --kills $(or $(KILLS),300)

slurm: $(STAMP)
	@bash tools/system_packages.sh $(DEBIAN_SLURM)
	$(BIN)/pytest -q tests/slurm

slurm-short: $(STAMP)
	@bash tools/system_packages.sh $(DEBIAN_SLURM)
	$(BIN)/pytest -q tests/slurm -m "not nightly"

docs: $(STAMP)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo 'open site/index.html'

system:
	@bash tools/system_packages.sh $(DEBIAN)

study: $(STAMP)
	$(BIN)/python -m benchmarks.study run --hours $(or $(HOURS),4)
	$(BIN)/python -m benchmarks.study tables

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
