# make run: build everything and run the main job.   make test: build and pass all tests.
# Both install what is missing when run as root on Debian and name it when not.
BUILD  ?= build
PYTHON ?= /usr/bin/python3
JOBS   ?= $(shell nproc)
CMAKE_ARGS ?=

CONFIGURE = cmake -S . -B $(BUILD) -G Ninja -DREDELTA_WARNINGS=ON -DPython3_EXECUTABLE=$(PYTHON) $(CMAKE_ARGS)
CTEST = cd $(BUILD) && ctest --output-on-failure -j $(JOBS)

.PHONY: run build test test-full bench bench-report clean

run: build
	$(BUILD)/redelta demo

# Libraries and tool; leaves a tree that is set up for testing as it is.
build:
	tools/bootstrap run
	[ -f $(BUILD)/build.ninja ] || $(CONFIGURE) -DBUILD_TESTING=OFF >/dev/null
	cmake --build $(BUILD) -j $(JOBS) --target redelta redelta_shared redelta_static redelta-npu redelta-npu-shared

test:
	tools/bootstrap test
	$(CONFIGURE) -DBUILD_TESTING=ON -DREDELTA_FULL_TESTS=OFF >/dev/null
	cmake --build $(BUILD) -j $(JOBS)
	$(CTEST) --timeout 900

test-full:
	tools/bootstrap full
	$(CONFIGURE) -DBUILD_TESTING=ON -DREDELTA_FULL_TESTS=ON >/dev/null
	cmake --build $(BUILD) -j $(JOBS)
	$(CTEST) --timeout 7200

# Measures this machine and redraws the pictures of README and docs/PERFORMANCE.md.
bench-report: build
	$(BUILD)/redelta bench --out $(BUILD)/bench.json
	$(PYTHON) bench/render.py $(BUILD)/bench.json docs/figures

bench: build
	$(BUILD)/redelta bench --quick

clean:
	rm -rf $(BUILD)
