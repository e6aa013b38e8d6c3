# Each target is enough by itself on a machine with Python 3.11+ and git.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: demo test check bench test-real setup tmux clean

setup: $(STAMP) tmux

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.11 ..." >&2; exit 6; }
	@$(PYTHON) -m venv $(VENV) || { echo "The venv module is missing; on Debian: apt-get install python3-venv" >&2; exit 6; }
	@$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

tmux:
	@sh tests/install_tmux.sh

demo: setup
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/autoresearch run blueprints/quickstart.md

test: setup
	@$(BIN)/python -m pytest

test-real: setup
	@$(BIN)/python -m pytest -m real

check: setup
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest

bench: setup
	@$(BIN)/python -m tests.bench

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
