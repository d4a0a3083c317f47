# The newcomer's commands. `make` lists them; each installs what it misses (scripts/bootstrap).
# This is a thin front to CMake: the build itself is in CMakeLists.txt and CMakePresets.json.

JOBS ?= $(shell nproc)

help: ## what can be made (this list)
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 20

build: ## libloam.so, libloam.a and loam-override.o, in build/release
	scripts/bootstrap
	cmake --preset release
	cmake --build --preset release -j $(JOBS)

demo: ## run real programs unchanged on loam, beside other allocators: a table and a chart
	scripts/bootstrap --demo
	cmake --preset release
	cmake --build --preset release --target loam -j $(JOBS)
	/usr/bin/python3 demo/run.py

bench: bench-programs ## every workload on every allocator, quick: under ten minutes on two cores
	/usr/bin/python3 bench/run.py --peers

bench-full: bench-programs ## the same at full size, at 1, 2 and 8 threads, and more real programs
	/usr/bin/python3 bench/run.py --full --peers

# What both of them run; the rivals are built by the last command.
bench-programs:
	scripts/bootstrap --bench
	cmake --preset release
	cmake --build --preset release --target loam bench -j $(JOBS)

test: build ## the tests of the release build, in under five minutes
	cd build/release && ctest -L 'quick|counts' --no-tests=error -j $(JOBS) --output-on-failure \
		$(CTEST_OPTIONS)

fuzz: ## each harness of tests/fuzz for LOAM_FUZZ_SECONDS (20)
	scripts/bootstrap --ci
	cmake --preset fuzz
	cmake --build --preset fuzz -j $(JOBS)
	cd build/fuzz && ctest --no-tests=error --output-on-failure $(CTEST_OPTIONS)

check: ## layers, layout of the code, the test of each promise, mistakes that clang-tidy sees
	scripts/bootstrap --ci
	python3 scripts/check_layers.py --self-test
	python3 scripts/check_layers.py
	python3 scripts/check_promises.py --self-test
	python3 scripts/check_promises.py
	python3 scripts/safe_names.py --self-test
	python3 scripts/safe_names.py
	scripts/check_format

format: ## lay the code out as .clang-format says
	scripts/check_format --fix

clean: ## remove everything that was built
	rm -rf build

.PHONY: help build demo bench bench-full bench-programs test fuzz check format clean
