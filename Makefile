# Every target works on a bare checkout with only Python and make: the environments are made here.

PYTHON ?= python3
# The oldest versions have no wheels for the newest Pythons: take 3.11 where there is one.
PYTHON_OLDEST ?= $(shell python3.11 -c 'print("python3.11")' 2>/dev/null || echo $(PYTHON))
# `make bench ARGS="--help"`
ARGS ?=
# `make test WORKERS=1` runs the tests in one process
WORKERS ?= auto

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed
READY_DEV := $(VENV)/.installed-dev
OLDEST := .venv-oldest
READY_OLDEST := $(OLDEST)/.installed

# A change of these compiles the native engine again.
NATIVE_FILES := setup.py $(wildcard src/tensorbnn/engine/native/*)

PIP_INSTALL := -m pip --disable-pip-version-check install --quiet
# At most 8 processes: each loads JAX and compiles for itself.
PYTEST := -m pytest -n $(WORKERS) --maxprocesses 8

# The steps of `test` and `lint`: each runs, whatever the one before it said.
LINT_STEPS := check-rules check-format check-imports check-types
TEST_STEPS := $(LINT_STEPS) pytest
QUICK_STEPS := $(LINT_STEPS) pytest-quick

# $(call run_all,STEPS): run every step, then name those that failed.
define run_all
	@failed=; for step in $(1); do \
	    $(MAKE) --no-print-directory $$step || failed="$$failed $$step"; \
	done; \
	if [ -n "$$failed" ]; then echo "$@: FAILED:$$failed"; exit 1; fi; echo "$@: all passed"
endef

# Stop with one line where $(INTERPRETER) is missing or too old.
define need_python
	@$(INTERPRETER) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "tensorbnn needs Python 3.11 or newer, which '$(INTERPRETER)' is not;" \
	         "name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
endef

.PHONY: help demo paper quick test lint format bench bench-predict bench-samplers quality soak report-check \
    sanitize docs oldest clean $(TEST_STEPS) pytest-quick
.NOTPARALLEL:
.DELETE_ON_ERROR:

help:
	@echo 'make demo     run the example of the paper; figure and run go into demo/'
	@echo 'make paper    the figures of the paper, into docs/paper/, and what it says of them, checked'
	@echo 'make quick    lint, types and the fast tests'
	@echo 'make test     lint, types and all tests'
	@echo 'make lint     ruff check, ruff format --check, import contracts, mypy'
	@echo 'make format   let ruff fix and format the code'
	@echo 'make bench    measure speed, side by side with others (options: ARGS="--help")'
	@echo 'make bench-predict   time and memory of predictions'
	@echo 'make bench-samplers  what samplers give per gradient, and the bias of MCLMC'
	@echo 'make quality  predictions on public tables next to published figures: ARGS="--data folder"'
	@echo 'make soak     the long proofs, which make test leaves out'
	@echo 'make report-check   the report of a run in headless Chromium, which must be installed'
	@echo 'make sanitize the native engine under AddressSanitizer and UBSan'
	@echo 'make docs     build the documentation into site/'
	@echo 'make oldest   all tests with the oldest versions allowed'
	@echo 'make clean    remove all that make has made, environments too; runs/ stays'

demo: $(READY)
	$(BIN)/tensorbnn demo

paper: $(READY)
	$(BIN)/python examples/paper.py --page docs/paper.md $(ARGS)

quick: $(READY_DEV)
	$(call run_all,$(QUICK_STEPS))

test: $(READY_DEV)
	$(call run_all,$(TEST_STEPS))

lint: $(READY_DEV)
	$(call run_all,$(LINT_STEPS))

check-rules: $(READY_DEV)
	$(BIN)/ruff check .

check-format: $(READY_DEV)
	$(BIN)/ruff format --check .

check-imports: $(READY_DEV)
	$(BIN)/lint-imports --no-cache --no-logo

check-types: $(READY_DEV)
	$(BIN)/mypy

pytest: $(READY_DEV)
	$(BIN)/python $(PYTEST)

pytest-quick: $(READY_DEV)
	$(BIN)/python $(PYTEST) -m "not soak and not browser and not slow" tests

format: $(READY_DEV)
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: $(READY_DEV)
	$(BIN)/python -m benchmarks $(ARGS)

bench-predict: $(READY_DEV)
	$(BIN)/python -m benchmarks.predict

bench-samplers: $(READY_DEV)
	$(BIN)/python -m benchmarks.samplers
	$(BIN)/python -m benchmarks.mclmc_bias

# `make quality ARGS="--data folder"`: make itself takes no --data
quality: $(READY_DEV)
	$(BIN)/python -m benchmarks.quality $(ARGS)

soak: $(READY_DEV)
	XLA_FLAGS= $(BIN)/python $(PYTEST) -m soak

report-check: $(READY_DEV)
	$(BIN)/python -m pytest -n 0 -m browser tests/cli

# The kernels without Python: see tests/engine/native/sanitize.cpp. -O1 leaves bounds visible.
NATIVE := src/tensorbnn/engine/native
SANITIZE := -std=c++17 -O1 -g -pthread -fsanitize=address,undefined -fno-sanitize-recover=all \
    -fno-omit-frame-pointer -ffp-contract=fast -fno-trapping-math -I$(NATIVE)
X86 := $(filter x86_64,$(shell uname -m))
ISA_FLAGS_avx512 := -mavx512f -mavx512dq -mavx512vl -mavx512bw -mavx2 -mfma
ISA_FLAGS_avx2 := -mavx2 -mfma
ISAS := portable $(if $(X86),avx2 avx512)

sanitize:
	@mkdir -p build/sanitize
	for isa in $(ISAS); do \
	    case $$isa in avx512) flags='$(ISA_FLAGS_avx512)';; avx2) flags='$(ISA_FLAGS_avx2)';; \
	    *) flags=;; esac; \
	    $(CXX) $(SANITIZE) $$flags -c $(NATIVE)/kernel_$$isa.cpp -o build/sanitize/$$isa.o || exit 1; \
	done
	$(CXX) $(SANITIZE) $(if $(X86),-DTENSORBNN_HAS_AVX512 -DTENSORBNN_HAS_AVX2) \
	    tests/engine/native/sanitize.cpp $(NATIVE)/dispatch.cpp $(NATIVE)/batch.cpp \
	    $(ISAS:%=build/sanitize/%.o) -o build/sanitize/run
	build/sanitize/run

docs: $(READY_DEV)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

oldest: $(READY_OLDEST)
	$(OLDEST)/bin/python $(PYTEST)

clean:
	rm -rf $(VENV) $(OLDEST) build dist site demo src/*.egg-info
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests benchmarks examples docs -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# The stamp, not the folder, says that an environment is whole: an interrupted one is made anew.
$(VENV)/.created: INTERPRETER = $(PYTHON)
$(OLDEST)/.created: INTERPRETER = $(PYTHON_OLDEST)
$(VENV)/.created $(OLDEST)/.created:
	$(need_python)
	$(INTERPRETER) -m venv --clear $(@D)
	@touch $@

# `demo` needs little; `dev` holds all of it.
$(READY): $(VENV)/.created pyproject.toml $(NATIVE_FILES)
	$(BIN)/python $(PIP_INSTALL) -e '.[plots]'
	@touch $@

$(READY_DEV): $(VENV)/.created pyproject.toml $(NATIVE_FILES)
	$(BIN)/python $(PIP_INSTALL) -e '.[dev]'
	@touch $(READY) $@

$(READY_OLDEST): $(OLDEST)/.created pyproject.toml requirements-oldest.txt
	$(OLDEST)/bin/python $(PIP_INSTALL) -c requirements-oldest.txt -e '.[test,bench]'
	@touch $@
