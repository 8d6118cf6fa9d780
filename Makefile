# make test      everything that CI runs, in PARTS (below)
# make quick     what needs nothing but Go: vet, types, unit tests, a few simulated worlds
# make soak      for hours: all platforms, then more worlds and more fuzzing; goes on where it was stopped
# make platforms builds and vets everything for all SYSTEMS, by the compiler; the first time it takes minutes
# make programs  the programs of rdma-core that connect by the RDMA CM, in all their ways
# make dropin    the libraries that unmodified programs in C use instead of rdma-core's, in dropin/build
# make roce-dropin   the command with these libraries in it, dropin/build/roce: "roce run" unpacks them
# make mutants   known defects put back, one at a time: do the tests find them?
# make cover     how much of the pure packages the simulations and unit tests execute: 90 % at least
# make demo      the main job
# make bench     ours against its rivals in half an hour; writes bench/RESULTS.md
# make bench FULL=1       everything, in an hour or two: more ports, references, guests, loss, many connections
# make bench OLD=COMMIT   our own cases of COMMIT and of the working tree in pairs; fails if one has become slower
# make tarball   for this processor one file with command, libraries and documents, and a .deb, in dist/
# make dist      what a release consists of, in dist/: binaries, tarballs, manual pages, completions, SBOMs, SHA256SUMS
# make dist-twice    the same from two clones, and from an empty cache: are the sums equal?
# make images    OCI images of the tarballs, in dist/: the command alone; libraries and perftest on Debian (docs/adopt.md)
# make lint      what CI systems and clusters read, by their own rules: workflows, scripts, manifests, the CDI file
# make pgo       a new profile to build the command by, after changes to hot paths

GO ?= go

# What make test consists of. Parts that compute keep all processors busy, one after the other; those
# that mostly wait, for a virtual machine, run beside them. Each check is in one part only:
#   vet       gofmt; go vet of everything on this system, which unit builds; types: the types and what go vet
#             says of everything, tests too, on all SYSTEMS
#   unit      every test but the worlds; those of wire once more without assembler; the facade over
#             another kind of device; the page of the traces, in a headless browser;
#             what is built with the tag verbs, as far as no device is needed;
#             whether the texts of the mutants are still there
#   race      packages that know goroutines, and pure ones only as far as memory is shared
#   worlds    WORLDS simulated worlds of each of the two kinds, and SWARM of a swarm of each
#   fuzz      every fuzz target, for seconds
#   emulated  the pure packages' tests as arm64 and as big-endian s390x
#   interop   the lab, the wire between two drivers, and all programs against a real rxe0
# What make soak has instead: builds and go vet with the compiler's types on the SYSTEMS (platforms),
# a million worlds of each kind, also of the swarm, and longer fuzzing.
COMPUTES := vet unit race worlds fuzz emulated
WAITS := interop
# As releases are built, without cgo, so that everything is compiled once. Only the race detector and
# the tag verbs want it.
$(COMPUTES) $(WAITS): export CGO_ENABLED := 0
race: export CGO_ENABLED := 1
# The compiler and the tests make much and keep little: with a larger heap they take a fifth less of the
# processors. What checks the types keeps gigabytes.
$(COMPUTES) $(WAITS): export GOGC := 400
vet: export GOGC := 200
# What is built here is only run: nobody debugs it.
$(COMPUTES) $(WAITS): export GOFLAGS := $(GOFLAGS) -gcflags=all=-dwarf=false

# Systems that the types are checked for.
SYSTEMS := darwin/arm64 windows/amd64 linux/arm64 linux/riscv64 linux/s390x linux/386
# Packages with goroutines, or whose memory several of them use. wire, qp, cm and docs have neither:
# a test of the structure holds qp and cm to that. Of the commands perf has what the others have.
RACED := ./mr ./qp/qptest/... ./transport/... ./roce/... ./cmd/roce/internal/perf ./bench/stage ./interop/lab/link
# Packages whose tests mostly wait, for the kernel and for each other: they begin first.
WAITING := ./transport/packet ./transport/xdp ./roce ./roce/rsocket ./cmd/roce
# Processors that the pure packages are emulated on, and Debian's names of the emulators.
EMULATED := arm64:qemu-aarch64-static s390x:qemu-s390x-static

# Debian packages of the full test: the virtual machine with a real rxe0, the tools that check our
# packets and archives, the rival of a test of the benchmark's network, the emulators, what the tag
# verbs needs, and a browser for the page of the traces, with a font.
PACKAGES := qemu-system-x86 iproute2 xz-utils tshark cpio iperf3 qemu-user-static libibverbs-dev librdmacm-dev ibverbs-utils rdmacm-utils perftest ucx-utils libfabric-bin python3-pyverbs openmpi-bin libopenmpi-dev gcc libc6-dev chromium-headless-shell fonts-dejavu-core
WORLDS ?= 10000
# How often fuzzing runs a target of each package, a few seconds: not for how long, as Go before
# 1.27 now and then fails a run that the clock ends (go.dev/issue/75804), above all on a busy machine.
FUZZ ?= ./wire:100000x ./cm:10000x ./qp/qptest:1500x ./roce/rsocket/internal/stream:50000x ./cmd/roce/internal/perf:50000x ./cmd/roce/internal/pingpong:50000x ./trace:10000x ./trace/analysis:10000x ./trace/filter:20000x ./trace/timeline:10000x
# Only ends what hangs: the tests take seconds to minutes.
TIMEOUT ?= 30m
# With REQUIRE=1 (CI) a check that cannot run fails; without, it skips and says what is missing.
REQUIRE ?=
ifneq ($(REQUIRE),)
export GOROCE_REQUIRE_LAB := 1
export GOROCE_REQUIRE_TOOLS := 1
endif

# vet has looked at the tests already. And the profile is for the command that users build: with it,
# all that the command consists of would be compiled a second time.
# More tests run at once than there are processors, as those with networks mostly wait for the kernel.
FLAGS := -vet=off -pgo=off -timeout $(TIMEOUT) -p $(shell echo $$(( 2 * $$(getconf _NPROCESSORS_ONLN) )))
# go test that lists what was skipped, and with REQUIRE=1 fails if something was missing.
SKIPS := $(GO) run ./internal/ci/skips
TEST := $(SKIPS) $(FLAGS)

# Systems that a release has binaries for.
RELEASED := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64

.PHONY: dropin roce-dropin tarball dist dist-twice images lint test computes waits quick demo bench pgo packages platforms programs cover mutants soak $(COMPUTES) $(WAITS)

# Both lanes run to their ends even if one fails. A part's output appears when the part has ended.
test: packages
	@$(MAKE) --no-print-directory --jobs=2 --output-sync computes waits

computes: PARTS := $(COMPUTES)
waits: PARTS := $(WAITS)
computes waits:
	@for part in $(PARTS); do \
		began=$$(date +%s); \
		$(MAKE) --no-print-directory $$part || exit 1; \
		echo "== $$part: $$(( $$(date +%s) - began )) s"; \
	done

quick: vet unit
	$(MAKE) worlds WORLDS=300

demo:
	$(GO) run ./cmd/roce demo

# Installs what is missing when it may (root on a Debian system); otherwise says exactly what is missing.
packages:
	@missing=$$(for p in $(PACKAGES); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done); \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; \
	else \
		echo "make test: missing Debian packages:" $$missing; \
		echo "  install them (as root: apt-get install" $$missing") or the tests that need them skip"; \
	fi

vet:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not gofmt-ed:" $$unformatted; exit 1; fi
	$(GO) vet -pgo=off ./...
	$(GO) run -C internal/ci/types . $(SYSTEMS)

platforms:
	@for s in $(SYSTEMS); do \
		echo "$$s: go build, go vet"; \
		GOOS=$${s%/*} GOARCH=$${s#*/} $(GO) build ./... || exit 1; \
		GOOS=$${s%/*} GOARCH=$${s#*/} $(GO) vet -pgo=off ./... || exit 1; \
	done

# Of dropin nothing is taken from the cache: go test does not know of the sources in C. It is vetted as
# its library is built, so that all below is compiled once; its tests, all in one folder, have no C.
unit:
	$(TEST) -skip '^(TestWorlds|TestSwarm|TestCrowd|TestLives)$$' $(WAITING) $$($(GO) list ./... | grep -v /interop)
	$(TEST) -tags purego ./wire
	cd examples/grpc && $(GO) test $(FLAGS) ./...
	@if [ -e /usr/include/infiniband/verbs.h ]; then \
		cd dropin && CGO_ENABLED=1 $(GO) vet -buildmode=c-shared -trimpath ./... && $(GO) test $(FLAGS) -count=1 .; \
	else \
		echo "libibverbs-dev is missing: nobody looks at the libraries for C"; [ -z "$(REQUIRE)" ]; \
	fi
	@if command -v chromium-headless-shell || command -v chromium || command -v google-chrome; then \
		cd trace/page/browser && $(GO) test $(FLAGS) ./...; \
	else \
		echo "chromium-headless-shell is missing: nobody looks at the page of the traces"; [ -z "$(REQUIRE)" ]; \
	fi
	$(TEST) -tags double -run '^TestSeam$$' ./roce
	@if [ -e /usr/include/rdma/rdma_cma.h ]; then \
		CGO_ENABLED=1 $(GO) vet -pgo=off -tags verbs ./roce/... && \
		$(SKIPS) CGO_ENABLED=1 $(FLAGS) -tags verbs ./roce/internal/verbs; \
	else \
		echo "libibverbs-dev or librdmacm-dev is missing: nothing with the tag verbs is tested"; [ -z "$(REQUIRE)" ]; \
	fi
	$(GO) run ./qp/qptest/mutants -check

# A few worlds are enough: each is played by one goroutine, and what they share is little. What is
# one goroutine in virtual time altogether has nothing that the detector could find, and takes minutes.
ALONE := TestGoodput|TestNetworks|TestPictures|TestBottleneck|TestPeerDies|TestHabits|TestTransitions|TestLongPath
race: export GOROCE_WORLDS := 50
race: export GOROCE_LIVES := 50
race:
	$(TEST) -race -short -skip '^($(ALONE)|TestSwarm|TestCrowd)$$' $(filter-out ./cmd/%,$(WAITING)) $(RACED)

# The simulated worlds, WORLDS seeds of each kind: random operations under random faults, with every
# packet foretold; queue pairs that live more than once, whose applications do at any moment what
# applications do; and SWARM worlds of each kind that have a few things only, and much of them. And
# WORLDS worlds of the connection manager, of some three connections each.
SWARM ?= 500
worlds:
	$(TEST) -count=1 -run '^TestWorlds$$' ./qp/qptest -worlds=$(WORLDS)
	$(TEST) -count=1 -run '^TestLives$$' ./qp/qptest/lives -lives=$(WORLDS)
	$(TEST) -count=1 -run '^Test(Swarm|Crowd)$$' ./qp/qptest ./qp/qptest/lives -swarm=$(SWARM)
	$(TEST) -count=1 -run '^TestSwarm$$' ./cm -swarm=$(WORLDS)

# Every fuzz target of these packages, LONGER times as often; findings land in testdata/fuzz and fail
# the next run too. A package's targets are one program, built once; what it learns stays where go
# test -fuzz keeps it.
LONGER ?= 1
fuzz:
	@set -e; at=$$(mktemp -d); trap "rm -rf $$at" EXIT; learned=$$($(GO) env GOCACHE)/fuzz; \
	for p in $(FUZZ); do \
		$(GO) test $(FLAGS) -c -fuzz . -o $$at/fuzz $${p%:*}; \
		path=$$($(GO) list $${p%:*}); times=$$(( $$(echo $${p##*:} | tr -d x) * $(LONGER) )); \
		for f in $$(cd $${p%:*} && $$at/fuzz -test.list '^Fuzz'); do \
			echo "$$path $$f"; \
			(cd $${p%:*} && $$at/fuzz -test.run '^$$' -test.fuzz "^$$f$$" -test.fuzztime $${times}x \
				-test.fuzzcachedir $$learned/$$path -test.timeout $(TIMEOUT)); \
		done; \
	done

emulated:
	@for e in $(EMULATED); do \
		echo "as $${e%:*}:"; \
		if command -v $${e#*:} >/dev/null; then \
			$(SKIPS) GOARCH=$${e%:*} $(FLAGS) -short -exec $${e#*:} ./wire ./mr ./qp ./cm || exit 1; \
		else \
			echo "$${e#*:} is missing (Debian package qemu-user-static)"; [ -z "$(REQUIRE)" ] || exit 1; \
		fi; \
	done

# A real rxe0 in a virtual machine against this stack.
interop:
	$(TEST) -count=1 ./interop/...

# The libraries that take the place of libibverbs, in dropin/build.
dropin:
	$(MAKE) -C dropin

# The command that carries them. What go:embed takes must lie in the package's own folder.
CARRIED := cmd/roce/internal/launch/libraries
roce-dropin: dropin
	rm -rf $(CARRIED) && mkdir $(CARRIED) && cp dropin/build/*.so* $(CARRIED)
	CGO_ENABLED=0 $(GO) build -pgo=off -trimpath -tags dropin -o dropin/build/roce ./cmd/roce
	rm -rf $(CARRIED)

# The programs of rdma-core that connect by the RDMA connection manager, in all their ways, against
# ours, and those over the libraries of dropin: some minutes. Of each make test plays one.
programs: PACKAGES += bubblewrap g++ libgloo-dev fio qperf tgt libiscsi-bin qemu-utils qemu-block-extra gcc-aarch64-linux-gnu libc6-dev-arm64-cross debootstrap
programs: packages
	test -e dropin/build/debian13/usr/bin/ib_write_bw || debootstrap --variant=minbase \
		--include=perftest,ibverbs-utils,python3-pyverbs,iproute2 trixie dropin/build/debian13
	cd dropin && GOROCE_PROGRAMS=1 CGO_ENABLED=1 $(GO) test -count=1 -timeout $(TIMEOUT) -v -run '^Test(Programs|Connecting|Forking(Servers|Client|Python)|SocketPrograms|UCX|MPI|MPIFigures|MPIKilled|MPIHostLeaves|Contained|Libfabric|ISER|Migration|Pyverbs|ARM64|Debian13)$$' .
	cd dropin && GOROCE_PROGRAMS=shared CGO_ENABLED=1 $(GO) test -count=1 -timeout $(TIMEOUT) -v -run '^Test(Programs|Connecting|Forking(Servers|Client)|SocketPrograms|Rcopy)$$' .
	GOROCE_PROGRAMS=1 $(TEST) -count=1 -run '^Test(Rping|Rstream|Preload|Rcopy|Programs|Reject|Udaddy|Mckey|PerfByCM|KernelCM|KernelCMCommands|KernelPerf|SIW|Perf|PerfVariants|Pingpong|Unmodified|Pyverbs|Panic)$$' -v ./interop

# Worlds with other seeds, CHUNK by CHUNK, and with each chunk forty times the fuzzing. Without FROM
# the next seed is kept in a file, so that a run that was stopped goes on there, also if the code has
# changed since: remove the file to begin again.
TO ?= 1000000
CHUNK ?= 50000
SOAKED := .soaked
soak: platforms
	@from=$${FROM:-$$(cat $(SOAKED) 2>/dev/null || echo 1)}; \
	while [ $$from -le $(TO) ]; do \
		n=$$(( $(TO) - from + 1 )); [ $$n -le $(CHUNK) ] || n=$(CHUNK); \
		$(GO) test ./qp/qptest/lives -run TestLives -count=1 -first=$$from -lives=$$n -timeout 0 || exit 1; \
		$(GO) test ./qp/qptest -run TestWorlds -count=1 -first=$$from -worlds=$$n -timeout 0 || exit 1; \
		$(GO) test ./cm ./qp/qptest ./qp/qptest/lives -run 'Test(Swarm|Crowd)' -count=1 -first=$$from -swarm=$$n -timeout 0 || exit 1; \
		$(MAKE) --no-print-directory fuzz LONGER=40 || exit 1; \
		from=$$(( from + n )); [ -n "$(FROM)" ] || echo $$from > $(SOAKED); \
		echo "soak: seeds up to $$(( from - 1 )) of all kinds: no rule broken"; \
	done; echo "soak: done up to seed $(TO); rm $(SOAKED) begins again"

# Statements of a package count as executed whichever of these tests does it.
COVERED := ./qp ./mr ./wire ./cm
cover:
	@profile=$$(mktemp) && trap "rm -f $$profile" EXIT && \
	$(GO) test $(FLAGS) -short -coverprofile=$$profile -coverpkg=$$(echo $(COVERED) | tr ' ' ,) $(COVERED) ./qp/qptest/... >/dev/null && \
	awk 'NR > 1 { split($$1, at, ":"); n = split(at[1], part, "/"); of[$$1] = part[n-1]; size[$$1] = $$2; if ($$3 > 0) hit[$$1] = 1 } \
		END { for (b in of) { all[of[b]] += size[b]; if (b in hit) some[of[b]] += size[b] } \
		for (p in all) { share = 100 * some[p] / all[p]; printf "%-5s %5.1f %% of %d statements\n", p, share, all[p]; if (share < 90) bad = 1 } exit bad }' $$profile

mutants:
	$(GO) run ./qp/qptest/mutants

# Ours and the rivals on one veth pair; writes bench/RESULTS.md, and results.json with all samples,
# which a release carries and the tree does not. Wants a quiet machine and root.
# With OLD=COMMIT it plays ours alone, by the programs of that commit and of the working tree in turn,
# which needs no packages.
#
# With NET=1 it plays ours beside TCP on networks that lose, are shared or are long instead, and
# writes bench/NETWORKS.md. That takes two hours; what has been played by a commit is kept in
# bench/net.jsonl, so that a run that was stopped goes on. CASE=alone/64k plays a part.
bench: $(if $(OLD),,packages)
	$(GO) run ./bench $(if $(NET),net $(if $(CASE),-case $(CASE))) $(if $(OLD),-old $(OLD)) $(if $(FULL),-full)

# The profile by which the command is built. Wants the same.
pgo: packages
	$(GO) run ./bench -full -pgo cmd/roce/default.pgo

# A release. Nothing in it depends on the time, the folder or the machine: binaries are static and
# without paths, pages have the commit's date, and SBOMs (CycloneDX) no serial number.
TOOL := $(GO) tool -modfile=internal/ci/tools/go.mod
SBOM := $(TOOL) cyclonedx-gomod bin -json -noserial -notimestamp
BUILD := $(GO) build -buildvcs=true -trimpath
tarball dist: export CGO_ENABLED := 0
tarball dist: export SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct)
tarball dist: export GO := $(GO)

# Processors that Linux has tarballs for, if their compilers are there; with REQUIRE=1 they must be.
PACKED = $(shell $(GO) env GOARCH)
tarball:
	@mkdir -p dist/man dist/completions
	@$(BUILD) -tags man -pgo=off -o dist/made ./cmd/roce && dist/made man dist/man && \
	for shell in bash zsh fish powershell; do dist/made completion $$shell >dist/completions/roce.$$shell || exit 1; done; rm dist/made
	@for arch in $(PACKED); do \
		GOOS=linux GOARCH=$$arch $(BUILD) -ldflags='-s -w -buildid=' -o dist/roce-linux-$$arch ./cmd/roce && \
		MAKE="$(MAKE)" REQUIRE=$(REQUIRE) adopt/pack $$arch || exit 1; \
	done

dist: PACKED = $(patsubst linux/%,%,$(filter linux/%,$(RELEASED)))
dist:
	@rm -rf dist
	@$(MAKE) --no-print-directory tarball PACKED="$(PACKED)"
	@for s in $(RELEASED); do \
		name=roce-$$(echo $$s | tr / -); bin=dist/$$name; case $$s in windows/*) bin=$$bin.exe;; esac; \
		echo "$$bin"; \
		GOOS=$${s%/*} GOARCH=$${s#*/} $(BUILD) -ldflags='-s -w -buildid=' -o $$bin ./cmd/roce || exit 1; \
		$(SBOM) -output $$bin.cdx.json $$bin || exit 1; \
		[ ! -e $$bin.tar.gz ] || { tar -xzOf $$bin.tar.gz $$name/lib/goroce/libgoroce-engine.so >dist/engine && \
			$(SBOM) -output $$bin-engine.cdx.json dist/engine && rm dist/engine; } || exit 1; \
	done
	@cd dist && find . -type f ! -name SHA256SUMS | LC_ALL=C sort | xargs sha256sum >SHA256SUMS && ls -l

# Images need neither a daemon nor root. That on Debian has what Debian has on that day, or in MIRROR,
# as mmdebstrap takes one; it is for this processor. Nothing of the packages' documents is in it.
DEBIAN := bookworm
WITH := perftest,ibverbs-utils,rdmacm-utils
MIRROR ?=
IMAGE := $(GO) run -C internal/ci/image .
# A layout as one file, as podman load and skopeo take it.
ARCHIVE = tar --sort=name --mtime=@$$SOURCE_DATE_EPOCH --owner=0 --group=0 --numeric-owner --mode=u+rw,go=rX -C dist/layout -cf
images: export CGO_ENABLED := 0
images: export SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct)
images:
	@rm -rf dist/layout && $(IMAGE) -name roce -o $(CURDIR)/dist/layout $(wildcard $(CURDIR)/dist/roce-linux-*.tar.gz) && \
	$(ARCHIVE) dist/roce-image.tar . && rm -rf dist/layout && echo dist/roce-image.tar
	@if ! command -v mmdebstrap >/dev/null; then \
		echo "no dist/roce-debian-image.tar: mmdebstrap is missing (Debian package mmdebstrap)"; [ -z "$(REQUIRE)" ]; \
	else \
		mmdebstrap --quiet --variant=minbase --include=$(WITH) --dpkgopt='path-exclude=/usr/share/doc/*' \
			--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' $(DEBIAN) dist/root.tar $(MIRROR) && \
		$(IMAGE) -name roce-debian -base $(CURDIR)/dist/root.tar -o $(CURDIR)/dist/layout $(CURDIR)/dist/roce-linux-$$($(GO) env GOARCH).tar.gz && \
		$(ARCHIVE) dist/roce-debian-image.tar . && rm -rf dist/layout dist/root.tar && echo dist/roce-debian-image.tar; \
	fi

# The package is looked at if it is there.
lint:
	$(TOOL) actionlint
	shellcheck adopt/pack adopt/*.sh setup-roce/*.sh
	$(GO) run -C internal/ci/manifests . $(wildcard $(CURDIR)/adopt/kubernetes/*)
	@for p in $(wildcard dist/*.deb); do echo lintian $$p; lintian --allow-root --fail-on error,warning $$p || exit 1; done

# Two clones in folders of different names, the second with a cache of its own.
dist-twice:
	@at=$$(mktemp -d) && trap "rm -rf $$at" EXIT && \
	git clone -q . $$at/one && git clone -q . $$at/the-other && \
	$(MAKE) --no-print-directory -C $$at/one dist && \
	GOCACHE=$$at/cache $(MAKE) --no-print-directory -C $$at/the-other dist && \
	diff $$at/one/dist/SHA256SUMS $$at/the-other/dist/SHA256SUMS && echo "the sums of $$(git rev-parse --short HEAD) are equal: $$(wc -l <$$at/one/dist/SHA256SUMS) files"
