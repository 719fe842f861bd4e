# make run: build everything and run the main job.   make test: build and pass all tests.
# Both install what is missing when run as root on Debian and name it when not.
# make check: the quick tests, in seconds.   make style: layout, clang-tidy, shellcheck.
# make test-full: also the long sweeps, every preset, the style and the mutants (make mutants: these alone).
# make test-newest: redelta.torch, fla and transformers with the newest torch and transformers; no gate.
BUILD  ?= build
PYTHON ?= /usr/bin/python3
JOBS   ?= $(shell nproc)
CMAKE_ARGS ?=
export PYTHON

CONFIGURE = cmake -S . -B $(BUILD) -G Ninja -DREDELTA_WARNINGS=ON -DPython3_EXECUTABLE=$(PYTHON) $(CMAKE_ARGS)
TESTS = -DREDELTA_BUILD_TESTS=ON -DREDELTA_REQUIRE_TESTS=ON -DBUILD_TESTING=ON
CTEST = cd $(BUILD) && ctest --output-on-failure -j $(JOBS)

.PHONY: run build check test test-full test-newest mutants style style-tools test-build bench bench-report clean

run: build
	$(BUILD)/redelta demo

# Libraries and tool; leaves a tree that is set up for testing as it is.
build:
	tools/bootstrap run
	[ -f $(BUILD)/build.ninja ] || $(CONFIGURE) -DREDELTA_BUILD_TESTS=OFF >/dev/null
	cmake --build $(BUILD) -j $(JOBS) --target redelta redelta_shared redelta_static redelta-npu redelta-npu-shared

check test: test-build
	$(CTEST) $(if $(filter check,$@),-L quick)

style: style-tools test-build
	tools/style $(BUILD)

style-tools:
	tools/bootstrap style

test-build:
	tools/bootstrap test
	$(CONFIGURE) $(TESTS) -DREDELTA_FULL_TESTS=OFF >/dev/null
	cmake --build $(BUILD) -j $(JOBS)

test-full:
	tools/bootstrap full
	$(CONFIGURE) $(TESTS) -DREDELTA_FULL_TESTS=ON >/dev/null
	cmake --build $(BUILD) -j $(JOBS)
	$(CTEST)

test-newest: build
	python/make-environment $(PYTHON) $(BUILD)/venv-newest newest
	PYTHONPATH=python REDELTA_LIBRARY=$(abspath $(BUILD))/libredelta.so $(BUILD)/venv-newest/bin/python -m pytest \
	  -q -rs -p no:cacheprovider -c python/tests/pytest.ini $(addprefix python/tests/test_,fla.py torch_verbs.py \
	  torch_ops.py models.py)

# One line of the source changed at a time: does the test that should notice it?
mutants: test-build
	python/make-environment $(PYTHON) $(BUILD)/venv
	$(PYTHON) test/mutants/mutants run . $(BUILD)/mutants $(BUILD)/venv/bin/python

# Measures this machine and redraws the pictures of README and docs/PERFORMANCE.md.
bench-report: build
	$(BUILD)/redelta bench --out $(BUILD)/bench.json
	$(PYTHON) bench/render.py $(BUILD)/bench.json docs/figures

bench: build
	$(BUILD)/redelta bench --quick

clean:
	rm -rf $(BUILD)
