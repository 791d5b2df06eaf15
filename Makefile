# What a developer types. CI runs .ci/run.

.PHONY: build test long kafka oracle race crash crash-shards crash-labels soak nemesis bench fuzz lint ci helm release site

build:
	go build -o blankout ./cmd/blankout

test:
	go test ./...

# With the tests that take longer than ten seconds each.
long:
	BLANKOUT_LONG=1 go test ./...

# The tests against a real Kafka broker. Maven fetches its jars, 44 MB, once, into
# the user's cache.
kafka:
	BLANKOUT_REQUIRE_KAFKA=1 go test -count=1 -run=TestKafka -v ./tests

# The chart against helm lint, the plain manifests and the schemas; fetches much, once.
helm:
	.ci/helm

# Compares the exact solvers with LIBLINEAR and LIBSVM, also on the full sets
# DATA/w8a/train.svm.gz and DATA/imdb/train.svm.gz.
oracle:
	BLANKOUT_ORACLE_DATA=$(abspath $(DATA)) go test -count=1 -timeout=60m -run='LIBLINEAR|LIBSVM' -v ./tests

race:
	go test -race ./...

# Kills the real program at a thousand random instants; the final state must
# equal, byte for byte, that of a run that was never killed.
crash:
	BLANKOUT_LONG=1 BLANKOUT_CRASH_KILLS=1000 go test -count=1 -timeout=60m -run=Crash -v ./tests/...

# Kills, pauses and stops members of a group KILLS times, with a real broker that restarts; the
# final shards must equal, byte for byte, those of one member that was left alone.
KILLS ?= 1000
crash-shards:
	BLANKOUT_REQUIRE_KAFKA=1 BLANKOUT_CRASH_SHARDS=$(KILLS) go test -count=1 -timeout=120m -run=KafkaShards -v ./tests

# Kills a learner of events whose labels come later KILLS times on a real broker, and at every
# failpoint of what waits; the final state must equal that of a run that was left alone.
crash-labels:
	BLANKOUT_LONG=1 BLANKOUT_REQUIRE_KAFKA=1 BLANKOUT_CRASH_LABELS=$(KILLS) go test -count=1 -timeout=120m -run='^TestKafka$$/^Joined$$|CrashJoin' -v ./tests

# The real program under all its loads for SOAK, then for SOAK_RACE with the race
# detector: memory, file descriptors and goroutines must stay where they are.
# SOAK_RATE records a second leave the machine room for other work; full takes all of it.
# SOAK_KILLS kills are spread over the time.
SOAK ?= 1h
SOAK_RACE ?= 10m
SOAK_RATE ?= 1000
SOAK_KILLS ?= 0
soak: export BLANKOUT_SOAK_RATE = $(SOAK_RATE)
soak: export BLANKOUT_SOAK_KILLS = $(SOAK_KILLS)
soak:
	BLANKOUT_SOAK=$(SOAK) go test -count=1 -timeout=3h -run=Soak -v ./tests
	BLANKOUT_SOAK=$(SOAK_RACE) BLANKOUT_SOAK_RACE=1 go test -count=1 -timeout=1h -run=Soak -v ./tests

# The real program on three real brokers for TIME, while brokers, network, disk,
# clocks and the program itself misbehave by a schedule drawn from SEED; then every
# record is accounted for. An odd seed learns one partition, an even one three.
TIME ?= 1h
SEED ?= 1
nemesis:
	BLANKOUT_REQUIRE_KAFKA=1 BLANKOUT_NEMESIS=$(TIME) BLANKOUT_NEMESIS_SEED=$(SEED) go test -count=1 -timeout=6h -run=Nemesis -v ./tests

# With DATA also blankout train and LIBLINEAR to the same gap, in turn.
bench:
	go test -run='^$$' -bench=. -benchmem ./...
	$(if $(DATA),go run ./tools/quality -data "$(DATA)" -liblinear "$(or $(LIBLINEAR),liblinear-train)" -only solvers)

# Every fuzz test for FUZZTIME each.
FUZZTIME ?= 10m
fuzz:
	.ci/fuzz $(FUZZTIME)

lint:
	test -z "$$(gofmt -l .)"
	go vet ./...
	go tool staticcheck ./...

# Lines of each room that are neither blank nor a comment, without tests.
ci:
	.ci/run

# Archives, checksums, Debian packages, bills of materials and the context of the image, in dist/.
release:
	.ci/release $(VERSION)

# dist/site: the documents with search, the reference of the Python package and the notebooks.
site:
	.ci/site

# The tables of docs/quality.md. DATA is the folder of the data sets; the peers,
# each left out if it is not there: VW the vw program, PYTHON one with River, LIBLINEAR
# liblinear-train. Of the Python package vowpalwabbit a vw that starts as fast is the script
#	exec python -c 'import sys, pylibvw; w = pylibvw.vw(sys.argv[1:]); w.run_parser(); w.finish()' "$@"
VW ?=
PYTHON ?=
LIBLINEAR ?=
quality:
	go run ./tools/quality -data "$(DATA)" -vw "$(VW)" -python "$(PYTHON)" -liblinear "$(LIBLINEAR)"

# Writes docs/speed.md: 4 minutes on two cores. It fills a topic of the broker
# KAFKA, which kcat reads. PYTHON needs River and confluent-kafka.
KAFKA ?=
speed:
	go run ./tools/quality -data "$(DATA)" -vw "$(VW)" -python "$(PYTHON)" -brokers "$(KAFKA)" -only speed > docs/speed.md.new
	mv docs/speed.md.new docs/speed.md
