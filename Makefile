PYTHON ?= python3
BIN := .venv/bin
# One more than the cores of a small machine: tests of Ray and of killed processes wait a lot.
WORKERS ?= 3

.PHONY: quickstart test lint docs constraints clean

quickstart: .venv/installed
	$(BIN)/fedgrid run quickstart

test: .venv/installed
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Modules are compiled when they are first imported: to compile all of torch, Ray and MLflow takes a minute.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("fedgrid needs Python 3.11 or newer; make PYTHON=python3.11 ..." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable ".[dev]"
	touch $@

.venv/docs: .venv/installed
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable ".[docs]"
	touch $@

constraints: .venv/installed
	(echo "# Versions that the Makefile installs; \`make constraints\` renews this file from the environment."; \
	 $(BIN)/python -m pip freeze --exclude-editable | grep == | sort -f) > constraints.new
	mv constraints.new constraints.txt

clean:
	rm -rf .venv
