# Two commands matter: `make demo` and `make test`. Both install what they need into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# On a terminal pip shows what it downloads; elsewhere it is silent.
PIP_OPTIONS := $(shell test -t 2 || echo --quiet)
VERSION := $(shell $(PYTHON) -c 'import sys; print("py%d.%d" % sys.version_info[:2])')

.PHONY: demo demo-service test test-all fuzz mutate reproduction docs check lock wheel release clean

demo: $(VENV)/.installed
	$(BIN)/unswayed demo

demo-service: $(VENV)/.installed
	$(BIN)/python scripts/demo-service demo

test: check
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-all: check
	$(BIN)/python -m pytest -n 2 --dist worksteal

fuzz: $(VENV)/.installed-dev
	$(BIN)/python -m tests.faults.fuzz

mutate: $(VENV)/.installed-dev
	$(BIN)/python scripts/mutate

# Takes an hour; of one commit, so nothing may be changed meanwhile.
reproduction: $(VENV)/.installed
	$(BIN)/unswayed reproduce --out results
	$(BIN)/python scripts/publish-reproduction results

docs: $(VENV)/.installed-dev
	$(BIN)/python scripts/build-docs build/docs

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

lock: $(VENV)/.installed
	scripts/lock

wheel: $(VENV)/.installed
	$(BIN)/python -m hatchling build -d dist

release:
	scripts/release

clean:
	rm -rf $(VENV)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: requirements/$(VERSION).txt pyproject.toml | $(VENV)/bin/python
	@echo "Installing into $(VENV); this takes a minute or two."
	$(BIN)/python -m pip install $(PIP_OPTIONS) --require-hashes -r requirements/$(VERSION).txt
	$(BIN)/python -m pip install $(PIP_OPTIONS) --no-deps --no-build-isolation --editable .
	$(BIN)/unswayed warm-up
	touch $@

$(VENV)/.installed-dev: requirements/dev-$(VERSION).txt scripts/install-system-packages $(VENV)/.installed
	scripts/install-system-packages
	$(BIN)/python -m pip install $(PIP_OPTIONS) --require-hashes -r requirements/dev-$(VERSION).txt
	touch $@
