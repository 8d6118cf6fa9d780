# make test    everything: packages, vet on three systems, unit, race, 10,000 simulated worlds of each kind, fuzzing, interop against rxe0
# make quick   what needs nothing but Go
# make soak    more worlds, for hours: seeds FROM to TO of both kinds; it goes on where it was stopped
# make mutants known defects put back, one at a time: do the tests find them?
# make demo    the main job
# make bench   ours against its rivals in half an hour; writes bench/RESULTS.md
# make bench FULL=1       everything, in an hour or two: more ports, references, guests, loss, many connections
# make bench OLD=COMMIT   our own cases of COMMIT and of the working tree in pairs; fails if one has become slower
# make pgo     a new profile to build the command by, after changes to hot paths

GO ?= go
# Debian packages of the full test: the virtual machine with a real rxe0, and the tools that check our packets.
PACKAGES := qemu-system-x86 iproute2 xz-utils tshark
WORLDS ?= 10000
# How often fuzzing runs a target of each package, a few seconds: not for how long, as Go before 1.27 now and then fails a run that the clock
# ends (go.dev/issue/75804), above all on a busy machine.
FUZZ ?= ./wire:200000x ./qp/qptest:3000x
# Only ends what hangs: the tests take seconds to minutes.
TIMEOUT ?= 30m
# With REQUIRE=1 (CI) a check that cannot run fails; without, it skips and says what is missing.
REQUIRE ?=
ifneq ($(REQUIRE),)
export GOROCE_REQUIRE_LAB := 1
export GOROCE_REQUIRE_TOOLS := 1
endif

.PHONY: test quick demo bench pgo packages vet unit race worlds soak mutants fuzz interop

test: packages vet unit race worlds fuzz interop

quick: vet unit

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
	$(GO) vet ./...
	GOOS=darwin $(GO) vet ./...
	GOOS=windows $(GO) vet ./...

unit:
	$(GO) test -timeout $(TIMEOUT) $$($(GO) list ./... | grep -v /interop)
	$(GO) test -timeout $(TIMEOUT) -tags purego ./wire

race:
	$(GO) test -timeout $(TIMEOUT) -race -short $$($(GO) list ./... | grep -v /interop)

# The simulated worlds, WORLDS seeds of each kind: random operations under random faults, with every packet foretold; and queue pairs
# that live more than once, whose applications do at any moment what applications do.
worlds:
	$(GO) test ./qp/qptest -run TestWorlds -count=1 -worlds=$(WORLDS) -timeout $(TIMEOUT)
	$(GO) test ./qp/qptest/lives -run TestLives -count=1 -lives=$(WORLDS) -timeout $(TIMEOUT)

# The same with other seeds, CHUNK by CHUNK. Without FROM the next one is kept in a file, so that a run that was stopped goes on
# there, also if the code has changed since: remove the file to begin again.
TO ?= 1000000
CHUNK ?= 50000
SOAKED := .soaked
soak:
	@from=$${FROM:-$$(cat $(SOAKED) 2>/dev/null || echo 1)}; \
	while [ $$from -le $(TO) ]; do \
		n=$$(( $(TO) - from + 1 )); [ $$n -le $(CHUNK) ] || n=$(CHUNK); \
		$(GO) test ./qp/qptest/lives -run TestLives -count=1 -first=$$from -lives=$$n -timeout 0 || exit 1; \
		$(GO) test ./qp/qptest -run TestWorlds -count=1 -first=$$from -worlds=$$n -timeout 0 || exit 1; \
		from=$$(( from + n )); [ -n "$(FROM)" ] || echo $$from > $(SOAKED); \
		echo "soak: seeds up to $$(( from - 1 )) of both kinds: no rule broken"; \
	done; echo "soak: done up to seed $(TO); rm $(SOAKED) begins again"

mutants:
	$(GO) run ./qp/qptest/mutants

# Every fuzz target of these packages; findings land in testdata/fuzz and fail the next run too.
fuzz:
	@set -e; for p in $(FUZZ); do \
		for f in $$($(GO) test -list '^Fuzz' $${p%:*} | grep '^Fuzz'); do \
			$(GO) test $${p%:*} -run '^$$' -fuzz "^$$f$$" -fuzztime $${p##*:}; \
		done; \
	done

# A real rxe0 in a virtual machine against this stack.
interop:
	$(GO) test ./interop/... -count=1 -timeout $(TIMEOUT) -v

# Ours and the rivals on one veth pair; writes bench/RESULTS.md. Wants a quiet machine and root.
# With OLD=COMMIT it plays ours alone, by the programs of that commit and of the working tree in turn, which needs no packages.
bench: $(if $(OLD),,packages)
	$(GO) run ./bench $(if $(OLD),-old $(OLD)) $(if $(FULL),-full)

# The profile by which the command is built. Wants the same.
pgo: packages
	$(GO) run ./bench -full -pgo cmd/roce/default.pgo
