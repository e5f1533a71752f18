# Everything from a fresh checkout: `make demo` or `make test` is the only command that is needed. They make a virtual
# environment, install what is pinned in pyproject.toml, build the extension (optimized) and install it there.
#
#   VENV=.venv        the virtual environment
#   BUILD=build       where compilers write; kept, so that a second make compiles only what changed
#   TORCH=torch==2.13.0   what pip is asked for; TORCH_INDEX=https://download.pytorch.org/whl/cpu saves the CUDA wheels
#   JOBS=N            compile and test jobs
#   CONFORMANCE_ARGS=...  of `python -m conformance`, such as --samples 0
#   TPU_COMPILE_ARGS=...  of `python -m tpu_compile`, such as --samples 0

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
BUILD ?= build
TORCH ?= torch==2.13.0
TORCH_INDEX ?=
JOBS ?= $(shell nproc)
PYTEST_ARGS ?= -n $(JOBS) --dist worksteal --durations=25
DEMO_ARGS ?=
CONFORMANCE_ARGS ?=

# A PYTHONPATH of the developer's loop would hide the installed package.
unexport PYTHONPATH
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)
export CCACHE_SLOPPINESS := pch_defines,time_macros

venv := $(abspath $(VENV))
bin := $(venv)/bin
pip := $(bin)/python -m pip --disable-pip-version-check install
export PATH := $(bin):$(PATH)

package_sources := pyproject.toml README.md LICENSE CMakeLists.txt $(shell find csrc torch_tpu -type f \( -name '*.cc' -o -name '*.h' -o -name '*.py' \))
cpp_tests := $(shell find tests/cpp -type f)
cpp_sources := $(shell git ls-files -co --exclude-standard '*.cc' '*.h')

.PHONY: help install demo test test-cpp test-python test-fused conformance bench lint format clean

help:
	@echo "make demo    train examples/mingpt on the tpu device"
	@echo "make test    build and run all tests"
	@echo "make conformance  PyTorch's operator, module and optimizer tests; writes docs/conformance.md"
	@echo "make bench   small-op and training-step timings"
	@echo "make lint, make format, make install, make clean"

# --- environment and package

# torch comes first and alone: nothing that follows may choose another one (the constraint file holds it).
$(venv)/.tools: pyproject.toml
	test -x $(bin)/python || $(PYTHON) -m venv $(venv)
	$(pip) '$(TORCH)' $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
	$(bin)/python -c "import importlib.metadata as m; print('torch==' + m.version('torch'))" > $(venv)/constraints.txt
	$(pip) -c $(venv)/constraints.txt scikit-build-core==1.1.2 'cmake>=3.24' 'ninja>=1.10' xla-cpu-pjrt==0.0.1 'numpy>=1.26'
	touch $@

$(venv)/.installed: $(venv)/.tools $(package_sources)
	mkdir -p $(BUILD)
	$(pip) -c $(venv)/constraints.txt --no-build-isolation --config-settings=build-dir=$(abspath $(BUILD))/wheel '.[dev,examples]'
	touch $@

install: $(venv)/.installed

# --- what it is for

demo: $(venv)/.installed
	$(bin)/python examples/mingpt/train.py --device tpu --plot $(BUILD)/mingpt-loss.png $(DEMO_ARGS)

bench: $(venv)/.installed
	$(bin)/python benchmarks/dispatch.py --json $(BUILD)/dispatch.json
	$(bin)/python benchmarks/training.py --json $(BUILD)/training.json

# --- tests

# Debian's package; any other GoogleTest that CMake finds (CMAKE_PREFIX_PATH) will do as well.
$(venv)/.gtest:
	@if [ -e /usr/include/gtest/gtest.h ] || [ -n "$${CMAKE_PREFIX_PATH:-}" ]; then :; \
	elif ! command -v apt-get > /dev/null; then \
	  echo "The C++ tests need GoogleTest: install it so that CMake finds it, or set CMAKE_PREFIX_PATH." >&2; exit 1; \
	else \
	  if [ "$$(id -u)" = 0 ]; then root=; elif command -v sudo > /dev/null; then root=sudo; \
	  else echo "The C++ tests need GoogleTest. As root: apt-get install -y libgtest-dev" >&2; exit 1; fi; \
	  $$root apt-get install -y libgtest-dev || { $$root apt-get update; $$root apt-get install -y libgtest-dev; }; \
	fi
	mkdir -p $(venv)
	touch $@

# In the folder of the installation, so that only the tests are left to compile.
test-cpp: $(venv)/.installed $(venv)/.gtest $(cpp_tests)
	cmake -S . -B $(BUILD)/wheel -DTORCH_TPU_BUILD_TESTS=ON
	cmake --build $(BUILD)/wheel --target torch_tpu_cpp_tests
	ctest --test-dir $(BUILD)/wheel -j $(JOBS) --output-on-failure | tee $(BUILD)/ctest.log

# The pytest executable, not `python -m pytest`: that would put this folder, with its unbuilt package, on the path.
test-python: $(venv)/.installed
	mkdir -p $(BUILD)
	TORCH_TPU_FALLBACK=error $(bin)/pytest $(PYTEST_ARGS) 2>&1 | tee $(BUILD)/pytest.log

# Views, writes, copies, random numbers, errors, training once more in fused mode. Tests that count strict mode's programs
# or its memory are not for it.
fused_tests := tests/python/aten tests/python/test_training.py tests/python/tpu/test_streams.py \
  $(addprefix tests/python/runtime/test_,fused.py donated_operands.py errors.py)

test-fused: $(venv)/.installed
	mkdir -p $(BUILD)
	TORCH_TPU_DEFER_AND_FUSE=1 TORCH_TPU_FALLBACK=error $(bin)/pytest $(PYTEST_ARGS) $(fused_tests) 2>&1 \
	  | tee $(BUILD)/pytest-fused.log

# All suites run even when one fails; their closing lines come last.
test: $(venv)/.installed $(venv)/.gtest
	@status=0; \
	mkdir -p $(BUILD); rm -f $(BUILD)/ctest.log $(BUILD)/pytest.log $(BUILD)/pytest-fused.log; \
	$(MAKE) --no-print-directory test-cpp || status=1; \
	$(MAKE) --no-print-directory test-python || status=1; \
	$(MAKE) --no-print-directory test-fused || status=1; \
	echo; \
	echo "ctest:  $$(grep -E 'tests passed|tests failed' $(BUILD)/ctest.log 2> /dev/null || echo 'did not run')"; \
	echo "pytest: $$(tail -n 1 $(BUILD)/pytest.log 2> /dev/null || echo 'did not run')"; \
	echo "pytest, fused: $$(tail -n 1 $(BUILD)/pytest-fused.log 2> /dev/null || echo 'did not run')"; \
	exit $$status

# All of PyTorch's OpInfo, module and optimizer entries, in worker processes that keep crashes apart. Hours on two cores.
# Then all programs for TPUs that are not there, through libtpu.
conformance: $(venv)/.installed
	mkdir -p $(BUILD)
	cd tests && TORCH_TPU_FALLBACK=error TORCH_TPU_CACHE_DIR=$(abspath $(BUILD))/conformance-cache \
	  $(bin)/python -m conformance --jobs $(JOBS) --json $(abspath $(BUILD))/conformance.json \
	  --markdown ../docs/conformance.md $(CONFORMANCE_ARGS) | tee $(abspath $(BUILD))/conformance.log
	cd tests && TORCH_TPU_FALLBACK=error TORCH_TPU_CACHE_DIR=$(abspath $(BUILD))/conformance-cache \
	  $(bin)/python -m tpu_compile --generations v6e v5e --json $(abspath $(BUILD))/tpu_compile.json \
	  --markdown ../docs/tpu_compile.md $(TPU_COMPILE_ARGS) | tee $(abspath $(BUILD))/tpu_compile.log
	$(bin)/python tools/coverage.py

# --- style

lint: $(venv)/.installed
	$(bin)/ruff check .
	$(bin)/ruff format --check .
	$(bin)/clang-format --dry-run -Werror $(cpp_sources)

format: $(venv)/.installed
	$(bin)/ruff check --fix .
	$(bin)/ruff format .
	$(bin)/clang-format -i $(cpp_sources)

clean:
	rm -rf $(BUILD) $(VENV)
