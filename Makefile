# Everything that people and CI run. `make` prints this list.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BUILD   := .build
BIN     := $(BUILD)/bin/rankd
PLUGIN  := $(BUILD)/plugins/cpu/pjrt_c_api_cpu_plugin.so
TPU_PLUGIN := $(BUILD)/plugins/tpu/libtpu.so
VENV    := .venv
PYTHON  := python3
# Inputs, not seconds: a run by time now and then fails at its end with nothing but "context deadline exceeded".
FUZZTIME ?= 20000x
GO_FILES := $(shell find . -name '*.go' -not -path './.build/*' -not -path './.venv/*')

# The tests must not skip for want of what make itself installs.
export RANKD_PLUGIN_PATH := $(CURDIR)/$(BUILD)/plugins/cpu
TEST_ENV := RANKD_REQUIRE_PLUGIN=1 RANKD_REQUIRE_SERVER=1 RANKD_BIN=$(CURDIR)/$(BIN)

.PHONY: help
help: ## print this list
	@echo "rankd: make TARGET"
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  %-12s %s\n", $$1, $$2}'

.PHONY: demo
demo: $(BIN) $(PLUGIN) ## build, make a model, serve it, score it over gRPC, stop (RANKD_DEMO_LISTEN, RANKD_DEMO_HTTP: other addresses)
	deploy/demo/demo.sh

.PHONY: serve
serve: $(BIN) $(PLUGIN) ## as demo, but leave the server running until Ctrl-C
	deploy/demo/demo.sh --serve

.PHONY: test
test: $(BIN) $(PLUGIN) $(VENV)/.installed ## everything that CI checks: Go, the Python exporter, a real KServe client
	$(TEST_ENV) go test ./...
	$(TEST_ENV) $(VENV)/bin/python -m pytest -q python/tests

.PHONY: race
race: $(PLUGIN) ## the concurrent packages under the race detector
	RANKD_REQUIRE_PLUGIN=1 go test -race -tags race_mu ./shmring/... ./deviceowner/... ./frontend/... ./tables/... ./internal/stats/... ./internal/bell/...

.PHONY: sim
sim: export RANKD_SIM_SCHEDULES ?= 1000000
sim: ## the ring under a simulated scheduler: RANKD_SIM_SCHEDULES (default 1,000,000) random schedules, small cases exhaustively, mutants
	go test -tags ringsim -count=1 -timeout 120m -v -run '^(TestSimulation|TestExhaustive|TestAllInterleavings|TestMutantsAreFound)$$' ./shmring

# Left out: tests that start themselves as another process (the emulator's kernel interface cannot), and those that need the
# address of a SIGBUS or huge pages, which it does not pass on.
ARM64_SKIP := ^(TestMutantsAreFound|TestLoaderKilledHalfway|TestSegmentOnEachKindOfPages|TestMissingSourcePageIsAnError|TestSourceCutOffWhileLoading|TestI2CountersOutliveKilledWriters)$$
ARM64_TEST := CGO_ENABLED=0 GOARCH=arm64 go test -count=1 -timeout 30m -exec qemu-aarch64-static -skip '$(ARM64_SKIP)'

.PHONY: arm64
arm64: ## the ring with its simulation, tables and decoders as arm64 programs under an emulator (package qemu-user-static)
	@command -v qemu-aarch64-static >/dev/null || { echo "make: qemu-aarch64-static is missing: apt-get install qemu-user-static" >&2; exit 1; }
	$(ARM64_TEST) ./shmring/... ./tables/... ./internal/bell ./internal/stats ./frontend/bind ./frontend/wire ./model
	$(ARM64_TEST) -tags ringsim ./shmring

.PHONY: noasm
noasm: ## the tables with the portable kernel only
	go test -tags noasm ./tables/...

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (default 20000x: inputs; a time such as 30s does too)
	@grep -rlE '^func Fuzz' --include=*_test.go . | sort | while read -r file; do \
	  dir=$$(dirname "$$file"); \
	  for target in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9]+)\(.*/\1/p' "$$file"); do \
	    echo "fuzz $$dir $$target $(FUZZTIME)"; \
	    out=$$(go test "$$dir" -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x 2>&1) || { echo "$$out"; exit 1; }; \
	    echo "$$out" | tail -n 1; \
	  done; \
	done

.PHONY: e2e-full
e2e-full: $(BIN) $(PLUGIN) ## the process tests at full size: 100,000 verified requests on sim, 2,000 on the CPU plugin
	$(TEST_ENV) RANKD_E2E_REQUESTS=100000 RANKD_E2E_PJRT_REQUESTS=2000 go test -count=1 -timeout 60m -v ./e2e/...

.PHONY: crash
crash: $(PLUGIN) ## real processes killed and stopped at every sync point; 300 frontends and 100 device owners killed under load
	$(TEST_ENV) RANKD_E2E_MATRIX=full RANKD_E2E_KILLS=100 RANKD_E2E_CANCELS=10000 go test -count=1 -timeout 60m -v \
	  -run '^(TestCrashMatrix|TestMany.*|TestCancelledCallsLeaveNothingBehind)$$' ./e2e

# The kernel of an emulated machine: unpacked, not installed.
NUMA_KERNEL := $(BUILD)/numa/vmlinuz
$(NUMA_KERNEL):
	@command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || { echo "make: want a Linux kernel's file, built with NUMA, as $(NUMA_KERNEL)" >&2; exit 1; }
	rm -rf $(BUILD)/numa && mkdir -p $(BUILD)/numa
	cd $(BUILD)/numa && apt-get download -q "$$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: //p' | head -n 1)"
	cd $(BUILD)/numa && dpkg-deb -x ./*.deb root && cp root/boot/vmlinuz-* vmlinuz && rm -rf root ./*.deb

.PHONY: numa
numa: $(BIN) $(NUMA_KERNEL) ## placement of processes and tables on an emulated machine with two NUMA nodes (package qemu-system-x86)
	@command -v qemu-system-x86_64 >/dev/null || { echo "make: qemu-system-x86_64 is missing: apt-get install --no-install-recommends qemu-system-x86" >&2; exit 1; }
	$(TEST_ENV) RANKD_NUMA_KERNEL=$(CURDIR)/$(NUMA_KERNEL) go test -count=1 -timeout 20m -v ./e2e/numa

# The servers of other languages that rankd is compared with have tests of their own: their scores are the same as rankd's.
BENCH_VENV := $(BUILD)/bench/test-venv
.PHONY: bench-test
bench-test: $(BIN) $(BENCH_VENV)/.installed ## tests of the Python and C++ servers of the comparison (C++ only where it was built: bench/cpp/README.md)
	cd bench/python && $(TEST_ENV) $(CURDIR)/$(BENCH_VENV)/bin/python -m pytest -q tests
	cd bench/python && $(CURDIR)/$(BENCH_VENV)/bin/python -m mypy && $(CURDIR)/$(BENCH_VENV)/bin/ruff check -q .

.PHONY: bench-smoke
bench-smoke: ## compare all servers briefly, in less than five minutes: bench/results/smoke/REPORT.md
	bench/run_benchmark.sh --smoke --replace

# The parts of a whole measurement on this machine; each takes less than an hour and goes on where it was interrupted. One more,
# shared, is made only where it is asked for: one user and many candidates a request, servers compared, less than half an hour.
BENCH_PARTS ?= sim server cpu
# What the machine costs an hour, in any currency: the server part prints what a million requests cost.
PRICE_PER_HOUR ?= 0.10

# More flags for these, such as --replace where results of another build are in the way.
BENCH_FLAGS ?=

.PHONY: bench
bench: $(PLUGIN) ## measure on this machine, under an hour each: BENCH_PARTS="sim server cpu" (servers compared; rankd alone; on the CPU platform)
	@for part in $(BENCH_PARTS); do \
	  case $$part in \
	    sim) bench/run_benchmark.sh --platform sim --arms rankd,rankd-nobatch,rankd-int8,py,py-batch,py-mp,py-mp-batch,py-mp-batch-shared,cpp-batch $(BENCH_FLAGS) ;; \
	    server) bench/run_benchmark.sh --platform sim --name server --parts capacity,overload,ablation --price-per-hour $(PRICE_PER_HOUR) $(BENCH_FLAGS) ;; \
	    cpu) bench/run_benchmark.sh --platform cpu --concurrencies 1,16,64 --repeats 1 --duration 8s --warmup 2s $(BENCH_FLAGS) ;; \
	    shared) bench/run_benchmark.sh --platform sim --workload shared-user --arms rankd,rankd-int8,py,py-batch,py-mp,py-mp-batch-shared,cpp-batch $(BENCH_FLAGS) ;; \
	    *) echo "make: BENCH_PARTS: got $$part, want some of sim, server, cpu, shared" >&2; exit 2 ;; \
	  esac || exit $$?; \
	done

# NumPy, torch and FBGEMM, which lookups are compared with: about 7 GB of packages.
LOOKUP_VENV := $(BUILD)/bench/lookup-venv
.PHONY: bench-micro
bench-micro: $(PLUGIN) $(LOOKUP_VENV)/.installed ## benchmarks of parts, each beside its baseline, about 15 minutes: bench/results/micro.json and micro.md (MICRO_FLAGS=--help)
	RANKD_REQUIRE_PLUGIN=1 go run ./bench/micro --python $(LOOKUP_VENV)/bin/python $(MICRO_FLAGS)

BENCHSTAT := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
BENCH_PKGS ?= ./tables ./shmring ./deviceowner ./frontend/...
.PHONY: bench-compare
bench-compare: ## Go benchmarks of REF and of this tree, ten interleaved runs each, through benchstat (REF, BENCH_PKGS)
	bench/compare_refs.sh "$(REF)" "$(BENCHSTAT)" $(BENCH_PKGS)

.PHONY: soak
soak: MINUTES ?= 30
soak: ## load rankd steadily for MINUTES (default 30) and see whether anything grows: bench/results/server/REPORT.md
	bench/run_benchmark.sh --platform sim --name server --parts soak --minutes $(MINUTES) $(BENCH_FLAGS)

.PHONY: lint
lint: ## the rules of the code base, gofumpt, vet, staticcheck
	go test -count=1 ./internal/lint/...

.PHONY: fmt
fmt: ## format all Go files
	go tool gofumpt -w $(filter-out %.pb.go,$(GO_FILES))

.PHONY: generate
generate: ## generate the protobuf code anew; needs pip and go only
	proto/generate.sh
	python/generate.sh

.PHONY: golden
golden: $(PLUGIN) ## write anew what is generated from flags, help and messages: pages and the golden files of cmd/rankd; look at the diff
	RANKD_REQUIRE_PLUGIN=1 go test -count=1 ./cmd/rankd -run '^(TestConfigurationPage.*|TestExampleFileIn.*|TestHelpIsAsReviewed|TestMistakesAreAnsweredAsReviewed)$$' -rewrite
	go test -count=1 ./internal/config -run '^TestI4Files' -rewrite

.PHONY: build
build: $(BIN) ## build the binary into .build/bin

.PHONY: plugin
plugin: $(PLUGIN) ## install the pinned PJRT plugin for the CPU into .build/plugins

.PHONY: plugin-tpu
plugin-tpu: $(TPU_PLUGIN) ## install libtpu too (467 MB), which compiles for TPUs that are elsewhere; tests with it then run

NFPM := github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.48.0
# Debian orders versions: 0.0~git20261201.093015.abc is before any 0.1.
VERSION ?= $(shell git log -1 --format='0.0~git%cd.%h' --date=format:%Y%m%d.%H%M%S)
MAINTAINER ?= rankd maintainers <maintainers@localhost>
.PHONY: page
page: $(BIN) ## the status page in headless Chromium (package chromium); pictures of it in .build/page
	RANKD_REQUIRE_BROWSER=1 RANKD_PICTURES=$(CURDIR)/$(BUILD)/page RANKD_BIN=$(CURDIR)/$(BIN) go test -count=1 -v ./e2e/browser

.PHONY: observe
observe: $(BIN) ## a server scraped by a real Prometheus (package prometheus), with the dashboard and the rules in deploy/
	RANKD_REQUIRE_PROMETHEUS=1 RANKD_BIN=$(CURDIR)/$(BIN) go test -count=1 -v ./e2e/observe

.PHONY: observe-cost
observe-cost: $(BIN) ## what counters, scrapes and traces cost, in pairs of servers at full load, 15 minutes alone on the machine (COST_FLAGS=--help)
	go build -trimpath -tags nostats -o $(BUILD)/bin/rankd-nostats ./cmd/rankd
	go run ./bench/cost --binary $(BIN) --bare $(BUILD)/bin/rankd-nostats $(COST_FLAGS)

.PHONY: deb
deb: export VERSION := $(VERSION)
deb: export MAINTAINER := $(MAINTAINER)
deb: $(BIN) ## the Debian package, in .build/deb: binary, units, user, manual, completions, an example of the configuration
	@rm -rf $(BUILD)/deb && mkdir -p $(BUILD)/deb
	@$(BIN) service install --packaged --root $(BUILD)/deb/root >/dev/null
	@$(BIN) manual $(BUILD)/deb/manual && gzip -9 -n $(BUILD)/deb/manual/man1/*.1
	@go run $(NFPM) package --config deploy/deb/nfpm.yaml --packager deb --target $(BUILD)/deb/

.PHONY: systemd
systemd: $(PLUGIN) deb ## the package and the service in a real systemd, booted in a container on an overlay of this system; root, package systemd-container
	RANKD_SYSTEMD=1 RANKD_DEB=$(CURDIR)/$(BUILD)/deb go test -count=1 -timeout 30m -v ./e2e/systemd

.PHONY: clean
clean: ## remove what make made
	rm -rf $(BUILD) $(VENV)

$(BIN): $(GO_FILES) go.mod go.sum
	@command -v go >/dev/null || { echo "make: go is missing: install Go 1.26 or newer" >&2; exit 1; }
	@command -v gcc >/dev/null || command -v cc >/dev/null || { echo "make: a C compiler is missing: install gcc" >&2; exit 1; }
	@echo "building $@"
	@go build -trimpath -o $@ ./cmd/rankd

$(PLUGIN): deploy/plugins/requirements-cpu.txt
	deploy/plugins/install_plugin.sh cpu
	@touch $@

$(TPU_PLUGIN): deploy/plugins/requirements-tpu.txt
	deploy/plugins/install_plugin.sh tpu
	@touch $@

# The virtual environment of the target's folder, with the packages of the first prerequisite.
define install_venv
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) is missing: install Python 3.11 or newer, or name it with PYTHON=" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; v = "%d.%d" % sys.version_info[:2]; sys.exit(sys.version_info < (3, 11) and "make: $(PYTHON) is " + v + ", want 3.11 or newer: name one with PYTHON=")'
	@echo "installing the Python packages of $< into $(@D)"
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
endef

$(BENCH_VENV)/.installed: bench/python/requirements.txt
	$(install_venv)
	@touch $@

$(LOOKUP_VENV)/.installed: bench/python/requirements-lookup.txt
	$(install_venv)
	@touch $@

$(VENV)/.installed: python/requirements-test.txt python/pyproject.toml
	$(install_venv)
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e './python'
	@touch $@
