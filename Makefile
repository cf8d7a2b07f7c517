# Every target sets up what it needs in .venv, and does so again only when a lock file changed.
# PYTHON=/path/to/python3.12 make run   picks another interpreter for a new .venv.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
CLIENTS := tests/real_clients
PEERS  := bench/installed
MEMORY := GLIBC_TUNABLES=glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1 # why: deploy/gemini-bridge.service
NEEDS_NPM = command -v npm >/dev/null || { echo "The real agents need Node.js with npm." >&2; exit 1; }
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes

.DEFAULT_GOAL := menu
SECONDS ?= 60
REQUESTS ?= 5000
.PHONY: menu run test test-clients client-matrix latest-clients soak cross-talk fuzz lint format types bench bench-peers settings diagrams accept replay lock clean

menu: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.run ## serve on http://127.0.0.1:41242 (with no GEMINI_API_KEY: the offline demo model)
	@exec env $(MEMORY) $(BIN)/gunicorn -c gunicorn.conf.py app:app

test: $(VENV)/.dev ## all tests, among them the real app under gunicorn and the real SDKs
	$(BIN)/python -m pytest --ignore=$(CLIENTS) --numprocesses=3 --dist=loadfile

test-clients: $(VENV)/.dev $(if $(LATEST),latest-clients,$(CLIENTS)/node_modules/.installed) ## the real agents from the npm registry against the bridge (needs Node.js; LATEST=1: the newest)
	$(if $(LATEST),CLIENTS=latest )$(BIN)/python -m pytest --numprocesses=2 $(CLIENTS)

client-matrix: $(VENV)/.dev $(CLIENTS)/node_modules/.installed ## the table of docs/CLIENTS.md from a run of the pinned agents
	$(BIN)/python -m pytest --numprocesses=2 --write-matrix $(CLIENTS)/test_matrix.py

soak: $(VENV)/.dev ## 200 streams at once with every fault, for SECONDS=60, and a verdict
	$(BIN)/python tests/faults/soak.py --seconds $(SECONDS)

cross-talk: $(VENV)/.dev ## REQUESTS=5000 through an upstream that misbehaves, and whether one got another's bytes
	$(BIN)/python -m tests.attacks.cross_talk --requests $(REQUESTS)

fuzz: $(VENV)/.fuzz ## whatever reads bytes from outside gets any bytes, for SECONDS=60 (Linux on x86-64)
	$(BIN)/python -m tests.fuzz.run --seconds $(SECONDS)

lint: $(VENV)/.dev ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.dev ## rewrite the code in the project's format
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

types: $(VENV)/.dev ## mypy, strict
	$(BIN)/mypy

bench: $(VENV)/.run ## what a request costs, beside a bare relay (Linux; ARGS=--quick takes a minute)
	@$(BIN)/python -m bench $(ARGS)

bench-peers: $(VENV)/.run $(PEERS)/litellm/.installed $(PEERS)/portkey/.installed ## the same beside LiteLLM and Portkey (needs Node.js)
	@$(BIN)/python -m bench --peers $(ARGS)

settings: $(VENV)/.run ## the settings in force and where each came from
	@$(BIN)/gemini-bridge settings

diagrams: $(VENV)/.run ## docs/states/ from the transition tables, the table of docs/UPSTREAMS.md, docs/openapi.json
	$(BIN)/python docs/states/generate.py
	$(BIN)/python docs/upstreams.py
	$(BIN)/python docs/openapi.py

accept: $(VENV)/.dev ## take what the golden transcripts give now as expected; review the diff
	BRIDGE_TEST_ACCEPT=1 $(BIN)/python -m pytest tests/protocols/test_transcripts.py tests/protocols/test_requests.py

replay: $(VENV)/.run ## how transcript NAME=plain_text becomes steps and events (PROTOCOL=openai_chat: of one; FULL=1: whole lines)
	@$(BIN)/python tests/support/replay.py "$(NAME)" --protocol "$(PROTOCOL)" $(if $(FULL),--full)

lock: $(VENV)/.run ## resolve the dependencies anew into the lock files
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile $(LOCK) setup.cfg requirements.in -o requirements.lock
	$(BIN)/uv pip compile $(LOCK) setup.cfg requirements.in --extra otel --extra vertex --extra sdk --extra test --extra lint \
	    -c requirements.lock -o requirements-dev.lock
	$(BIN)/uv pip compile $(LOCK) setup.cfg --extra fuzz --no-deps -c requirements.lock -o requirements-fuzz.lock
LOCK = --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-strip-extras --no-annotate --no-header

# Not `npm ci`: it refuses a lock without an entry for each package of every other platform, and not all registries have them.
$(CLIENTS)/node_modules/.installed: $(CLIENTS)/package-lock.json
	@$(NEEDS_NPM)
	npm install --prefix $(CLIENTS) --no-save --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

latest-clients: | $(VENV)/bin/python
	@$(NEEDS_NPM)
	$(BIN)/python $(CLIENTS)/newest.py

$(PEERS)/litellm/.installed: | $(VENV)/bin/python
	$(BIN)/python -m venv $(PEERS)/litellm
	$(PEERS)/litellm/bin/python -m pip install --quiet --disable-pip-version-check 'litellm[proxy]'
	@touch $@

$(PEERS)/portkey/.installed:
	@command -v npm >/dev/null || { echo "Portkey's gateway needs Node.js with npm." >&2; exit 1; }
	npm install --prefix $(PEERS)/portkey --no-audit --no-fund --loglevel=error @portkey-ai/gateway
	@touch $@

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) $(CLIENTS)/node_modules $(CLIENTS)/latest $(PEERS) tests/fuzz/found build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "Python 3.11 or newer is needed; '$(PYTHON)' is not. Try: PYTHON=python3.12 make run" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
	    { echo "This Python cannot make virtual environments. On Debian: apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The dev lock holds all of the run lock, so either may be installed first.
$(VENV)/.run: requirements.lock setup.cfg | $(VENV)/bin/python
	$(INSTALL) -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.run
	$(INSTALL) -r requirements-dev.lock
	@touch $@

# A lock of its own: its wheels are for Linux on x86-64 alone, and all else must install elsewhere too.
$(VENV)/.fuzz: requirements-fuzz.lock $(VENV)/.dev
	$(INSTALL) --only-binary atheris -r requirements-fuzz.lock
	@touch $@
