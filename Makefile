# Two commands do everything: `make demo` and `make test`. Both work on a bare Debian with Python 3.11+.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2

.PHONY: help demo test lint types rules bench generate clean system-packages

help:  ## show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(VENV)/.ready-demo: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[all]'
	@touch $@

$(VENV)/.ready-dev: pyproject.toml tests/requirements-older.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade --no-warn-conflicts --target $(VENV)/older -r tests/requirements-older.txt
	@touch $@ $(VENV)/.ready-demo

demo: $(VENV)/.ready-demo  ## run the demo: Valkey, workers with faults, exporter, explorer, Prometheus
	$(BIN)/lockscope demo $(DEMO_ARGS)

system-packages:
	@sh tests/system-packages.sh

test: system-packages $(VENV)/.ready-dev lint types rules  ## everything CI runs
	$(BIN)/python -m pytest -n $(JOBS) --dist loadscope

lint: $(VENV)/.ready-dev  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready-dev  ## mypy --strict
	$(BIN)/mypy

rules: $(VENV)/.ready-dev system-packages  ## promtool on the shipped rules and their tests
	promtool check rules --lint=all --lint-fatal grafana/rules/*.yml
	promtool test rules grafana/rules/tests/*.yml

bench: $(VENV)/.ready-dev  ## benchmarks, side by side with what they are measured against
	$(BIN)/python -m tests.bench

generate: $(VENV)/.ready-dev  ## regenerate dashboards, rules and generated documentation
	$(BIN)/python -m grafana.generate

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .hypothesis
