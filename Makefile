# SPDX-License-Identifier: Apache-2.0
# make run    installs what is missing, builds, trains the example
# make test   the same set-up, then every test
# make fuzz   a minute of fuzzing for each reader; FUZZ_SECONDS=N takes another time
# make install PREFIX=DIR  the programs and the library (docs/library.md)
# make build  build/bin/triax · make format · make bench · make clean
# TORCH_INDEX=URL takes the LibTorch wheel from another package index.

export TORCH_INDEX
BUILD := build
CTEST_FLAGS ?= --output-on-failure

.PHONY: run test build install setup setup-tests bench format check-format layers \
        sanitize clean data

run: build data
	$(BUILD)/bin/triax train configs/kjv.toml

# The walk's new draws follow from the tree: a tree that passes here passes on
# the next machine. Failures alone are printed, so none drowns.
test: export TRIAX_WALK_SEED ?= $(shell \
  git rev-parse --verify -q 'HEAD^{tree}' | sed 's/^\(.\{15\}\).*/0x\1/')
test: export GTEST_BRIEF ?= 1
test: setup-tests configure data
	cmake --build $(BUILD)
	tools/check.sh
	ctest --test-dir $(BUILD) $(CTEST_FLAGS)

build: setup configure
	cmake --build $(BUILD) --target triax triax-run

install: build
	cmake --install $(BUILD) --prefix $(PREFIX)

.PHONY: configure
configure:
	@test -f $(BUILD)/build.ninja || cmake -G Ninja -B $(BUILD) -S .

setup:
	@tools/setup.sh

setup-tests:
	@tools/setup.sh --tests

data: data/kjv.txt
data/kjv.txt: tools/fetch_kjv.sh | setup
	@mkdir -p data
	tools/fetch_kjv.sh $@

# Measures for more than an hour; BENCH="step_dp2 --rounds 3" takes less of it.
bench: build data
	tools/setup_bench.sh
	cmake -B $(BUILD) -S .
	cmake --build $(BUILD) --target benches
	bench/run $(BENCH)
	bench/report.py

format:
	git ls-files '*.h' '*.cpp' | xargs clang-format-14 -i

# Ranks as threads is what TSan can follow; ten thousand operations and eight
# ranks take it minutes and find no more.
TSAN_TESTS := -Launch*:FindRunProgram*:StartProcess*:ReadTail*:*Thousand*:Ranks/*8*

# ASan + UBSan on everything without LibTorch, TSan on comm.
sanitize: setup-tests
	cmake -G Ninja -B build-asan -S . -DTRIAX_TORCH=OFF -DTRIAX_BENCH=OFF \
	  "-DTRIAX_SANITIZE=address;undefined"
	cmake --build build-asan
	ctest --test-dir build-asan $(CTEST_FLAGS)
	cmake -G Ninja -B build-tsan -S . -DTRIAX_TORCH=OFF -DTRIAX_BENCH=OFF \
	  -DTRIAX_SANITIZE=thread
	cmake --build build-tsan --target test_comm
	build-tsan/tests/test_comm --gtest_filter='$(TSAN_TESTS)'

# FUZZ_SECONDS of libFuzzer for each reader of other systems' configs.
FUZZ_SECONDS ?= 60
.PHONY: fuzz
fuzz: setup-tests
	CC=clang-14 CXX=clang++-14 cmake -G Ninja -B build-fuzz -S . \
	  -DTRIAX_TORCH=OFF -DTRIAX_BENCH=OFF -DTRIAX_TESTS=OFF -DTRIAX_FUZZ=ON
	cmake --build build-fuzz --target fuzzers
	tests/fuzz/run.sh build-fuzz $(FUZZ_SECONDS)

clean:
	rm -rf $(BUILD) build-asan build-tsan build-fuzz
