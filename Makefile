# make run: build everything and run the main job.   make test: build and pass all tests.
# Both install what is missing when run as root on Debian and name it when not.
BUILD  ?= build
PYTHON ?= /usr/bin/python3
JOBS   ?= $(shell nproc)
CMAKE_ARGS ?=

.PHONY: run build test test-full bench bench-report clean

run: build
	$(BUILD)/redelta demo

build:
	tools/bootstrap run
	cmake -S . -B $(BUILD) -G Ninja -DREDELTA_WARNINGS=ON -DPython3_EXECUTABLE=$(PYTHON) $(CMAKE_ARGS) >/dev/null
	cmake --build $(BUILD) -j $(JOBS)

test:
	tools/bootstrap test
	$(MAKE) build CMAKE_ARGS="-DREDELTA_FULL_TESTS=OFF $(CMAKE_ARGS)"
	cd $(BUILD) && ctest --output-on-failure -j $(JOBS) --timeout 900

test-full:
	tools/bootstrap full
	$(MAKE) build CMAKE_ARGS="-DREDELTA_FULL_TESTS=ON $(CMAKE_ARGS)"
	cd $(BUILD) && ctest --output-on-failure -j $(JOBS) --timeout 7200

# Measures this machine and redraws the pictures that the README shows.
bench-report: build
	$(BUILD)/redelta bench --out $(BUILD)/bench.json
	$(PYTHON) bench/render.py $(BUILD)/bench.json docs/figures

bench: build
	$(BUILD)/redelta bench --quick

clean:
	rm -rf $(BUILD)
