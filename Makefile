# Each target is enough by itself on a machine with Python 3.11+ and git.
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
QUICKLY := --quiet --disable-pip-version-check --no-compile
# the first one that is new enough; looked for only when the virtual environment is made
NEW    := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
            $$p -c "$(NEW)" >/dev/null 2>&1 && { echo $$p; break; }; done)

.PHONY: demo wheel test test-all test-real test-gpu check style house bench bench-counts docs screenshots setup tmux tools trl ray aider skills-ref mcp notebook uv agents clean always

setup: $(STAMP) tmux

# A clone that was moved or copied, or a Python that was removed, makes the environment a stale one. It is cleared then,
# unless somebody named it (make VENV=...): that one may be another clone's.
ifneq ($(shell $(BIN)/python -c "" 2>/dev/null && cat $(STAMP) 2>/dev/null),$(CURDIR))
$(STAMP): always
endif

$(STAMP): pyproject.toml
	@$(or $(PYTHON),false) -c "$(NEW)" || { \
	  echo "Python 3.11 or newer is needed; if it has another name: make PYTHON=/path/to/python3.11" >&2; exit 6; }
	@stale=; if [ -e $@ ] && [ "$$(cat $@)" != "$(CURDIR)" ]; then stale=$(if $(filter file,$(origin VENV)),--clear); fi; \
	$(PYTHON) -m venv $$stale $(VENV) || { \
	  echo "$(PYTHON) cannot make a virtual environment; on Debian and Ubuntu, type this, then run the same" \
	       "command again:  sudo apt-get install -y python3-venv" >&2; exit 6; }
	@echo "installing into $(VENV): a minute or two" >&2
	@# what is never imported need not be compiled; with the builders at hand, pip makes no environment for them
	@$(BIN)/python -m pip install $(QUICKLY) 'hatchling>=1.24' editables 'setuptools>=70.1' && \
	$(BIN)/python -m pip install $(QUICKLY) --no-build-isolation --editable '.[dev]' || { \
	  echo "The packages in pyproject.toml could not be installed; pip says why above." >&2; exit 6; }
	@echo "$(CURDIR)" > $@

tmux:
	@sh tests/install_tmux.sh

demo: setup
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/autoresearch demo

# wheel and sdist, into dist/
wheel: setup
	@$(BIN)/python -m hatchling build

test: setup
	@$(BIN)/python -m pytest

test-all: setup
	@$(BIN)/python -m pytest -m 'not real' -r fE --durations=40

# What can be installed without a question is; a test that misses something is skipped, and the summary says why.
# The tests of one file go to one worker, where they share a server that takes long to start.
test-real: setup
	@$(MAKE) --no-print-directory --keep-going -j2 trl ray aider skills-ref mcp notebook uv agents || echo "some of it is missing: see above" >&2
	@PATH="$$PATH:/usr/sbin:/sbin" $(BIN)/python -m pytest -m real --dist loadfile --no-loadscope-reorder -r sfE --durations=40

# On a host with a GPU, with or without a network; GPU_PYTHON=/path/to/python names one that has torch.
test-gpu: setup
	@$(BIN)/python -m pytest -m real tests/commands/test_gpu.py -n 0 -vv -rs --durations=0 --durations-min=0.5

tools:
	@sh tests/install_tools.sh

trl ray aider skills-ref mcp notebook uv: setup
	@sh tests/install_packages.sh $(BIN)/python $@

# coding agents from npm, which needs Node (one of the tools)
agents: tools
	@sh tests/install_agents.sh

check: style test

# what `check` says of types and style
style: setup
	@$(BIN)/ruff check .
	@$(BIN)/mypy

# circles, names, folders, imports, commands: docs/house.md says what they are for
house: setup
	@$(BIN)/python -m tests.house_numbers

# the site, in site/: every warning is an error, and nothing is loaded from elsewhere
docs: setup
	@$(BIN)/python -c "import material" 2>/dev/null || \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --clean --quiet
	@echo "site/index.html is there; with search: $(BIN)/python -m http.server --directory site" >&2

# the pictures in docs/images, or in another directory: make screenshots OUT=DIRECTORY
OUT ?= docs/images
screenshots: setup
	@sh tests/install_tools.sh chromium
	@$(BIN)/python -m tests.screenshots "$(OUT)"

# fails where a value is worse than what was reached before by more than a fifth
bench: setup
	@$(BIN)/python -m tests.bench

# the part of it that has no clock: what commands import, open, start and ask of the kernel, and CPU by ratios
bench-counts: setup
	@sh tests/install_tools.sh strace
	@$(BIN)/python -m tests.bench counts

clean:
	rm -rf $(VENV) .venv-trl .venv-ray .venv-aider .venv-skills-ref .venv-mcp .venv-notebook .venv-uv .agents build dist site .mypy_cache .ruff_cache .pytest_cache
