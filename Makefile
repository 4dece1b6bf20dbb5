# Every command sets itself up in .venv; Python 3.11+ is all that it needs from the machine.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench docs constraints clean

# The stamp's name holds what the set-up depends on: unchanged means nothing to do, also after a new checkout.
STAMP := .venv/.setup-$(shell (cat pyproject.toml constraints.txt tools/setup; pwd) | cksum | cut -d' ' -f1)
PY := .venv/bin/python
ARGS ?=

help: ## show this list
	@echo "Headrace: make <command> [ARGS=...]"
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  \1|\2/p' Makefile | awk -F'|' '{printf "%-14s %s\n", $$1, $$2}'

$(STAMP):
	@tools/setup $@

setup: $(STAMP) ## make .venv with all that the other commands use

demo: $(STAMP) ## run the quickstart in an empty folder
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && cd "$$dir" && "$(CURDIR)/$(PY)" "$(CURDIR)/examples/quickstart.py"

test: $(STAMP) ## run the tests (ARGS="-k lease -x")
	@$(PY) -m pytest $(ARGS)

check: $(STAMP) ## lint, format, types, import order, house rules
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m pyright
	.venv/bin/lint-imports --no-logo
	$(PY) -m pytest -q tests/house

bench: $(STAMP) ## print the figures of the engine beside their targets
	@$(PY) -m benchmarks $(ARGS)

docs: $(STAMP) ## build the documentation into site/; a warning is an error
	@$(PY) -m sphinx --fail-on-warning --keep-going --quiet --fresh-env --builder html docs site
	@echo "site/index.html"

constraints: ## renew constraints.txt from what a new venv resolves to
	@tools/renew-constraints

clean: ## remove what the commands made, .venv too
	rm -rf .venv site build dist bench-out .pytest_cache .ruff_cache .hypothesis .import_linter_cache .headrace
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
