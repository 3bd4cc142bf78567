# make demo          the whole study on a laptop: 5,760 applications, three simulated servers, verified results
# make test          types, lint, and the quick part of every test, or of those in T=pool, T=bin/files; test/README.md
# make test-all      all of every test, and the suites; T=… as above, without the suites
# make suites        third-party suites, their data installed from npm and Debian into a temporary folder; in test-all too
# make wheel         the Python package, with the built program inside, into python/dist/; test/suites/python.sh tests it
# make fuzz          the property tests with new seeds until stopped, or for MINUTES=…; SEED=… begins there, RUNS=… cases each
# make crash         every kill point, failing write and full disk of the ledger, and random schedules of faults; most of an hour
# make stores        S3 by a server of others (s3rver of npm, or AWS_ENDPOINT_URL): every call, then 1 GB killed at each part; some minutes
# make bench RIG=…   docs/performance.md, most of an hour on a quiet machine; RIG is a folder of what fw is measured against. One part of
#                    it: make bench-text, bench-ingest, bench-calls (the client by a bare loop and by aiohttp), bench-ledger, bench-pool, bench-limits (CHAINS=1000 for the quick half), bench-sockets, bench-clock (the times of fw bench), bench-foretold (fw plan beside fw bench), bench-gateway (what fw serve adds), bench-live-beside-batch (TTFT of live calls beside batches; WIRE=1 on sockets too), bench-simulator
# make large-batch   a batch file of 1,000,000 lines, or of LINES=…, killed three times and gone on; most of half an hour
# make standby       100,000 lines, or LINES=…, through two servers over one folder that are killed and frozen in turn; some minutes
# make soak          its last part: half an hour with faults, or MINUTES=… and IN_FLIGHT=…: memory, descriptors, and whether the books agree
# make soak-gateway  20 minutes, or MINUTES=…, of full load on the gateway of fw serve: memory, descriptors, lost chunks
# make calibration    whether the report's intervals and tests keep their word, some minutes; the table of docs/report.md
# make batch ORDER=risk,data,regulatory,consumer CSV=prompts.csv   one ordering, a list of them, or `all`; DOCUMENT=1: documents, not lines
# make batch4        the twelve orderings of batch 4, for all rows of CSV or the first LIMIT=96
# make revalidate    the checks alone, over out/sequential_*_legacy.json and .jsonl
# make recover       asks again what failed in the last batch, or in RESULTS="old/*_legacy.json" CSV=prompts.csv of any origin
#
# The batches ask the endpoints in FW_ENDPOINTS (comma-separated base URLs, such as http://gpu1:8005/v1), and keep every
# answer in ledger/: the same command again asks only what is missing. `make clean` leaves that alone.

FW    := node dist/bin/fw.js
CSV   ?= prompts.csv
ORDER ?= default
OUT   ?= demo
AS    = $(if $(DOCUMENT),--set legacy-convert.document=true)
SOURCES := $(shell find index.ts answers.ts errors.ts simulator.ts bin stages engine products fixtures schemas -name '*.ts' -o -name '*.schema.json') $(shell find pipelines/starters -type f) build.mjs package.json

.PHONY: demo test test-all suites wheel fuzz crash stores bench large-batch standby soak soak-gateway calibration batch batch4 revalidate recover clean

demo: dist/.built
	@fixtures/demo.sh $(OUT)

# what tests leave behind that were killed, vitest's own files among it, goes with the folder
TEMPORARY = export TMPDIR=$$(mktemp -d); trap 'rm -rf "$$TMPDIR"' EXIT; trap 'exit 130' INT TERM

test: dist/.built
	@$(TEMPORARY); npm run --silent check > dist/.checked 2>&1 || { cat dist/.checked >&2; false; } & \
	check=$$!; FW_BUILT=1 npm test --silent -- $(addprefix test/,$(T)); tests=$$?; \
	wait $$check || { echo 'types or lint: failed, as said above'; exit 1; }; exit $$tests

test-all: dist/.built
	$(if $(T),,@test/suites/run.sh)
	@$(TEMPORARY); ALL=1 FW_BUILT=1 npm test --silent -- $(addprefix test/,$(T))

suites: dist/.built
	@test/suites/run.sh

wheel: dist/.built
	@$(or $(PYTHON),python3) python/build_wheel.py

fuzz: node_modules/.installed
	@test/by-hand/fuzz.sh

crash: dist/.built
	@test/crash/run.sh

stores: dist/.built
	@test/by-hand/stores.sh

bench: bench-text bench-ingest bench-calls bench-ledger bench-pool bench-simulator bench-gateway

bench-%: dist/.built
	@npx esbuild bench/$*.ts --bundle --format=esm --platform=node --packages=external --outfile=dist/bench/$*.js --log-level=warning
	@RIG='$(RIG)' node dist/bench/$*.js

large-batch: dist/.built
	LINES=$(or $(LINES),1000000) ALL=1 FW_BUILT=1 npx vitest run test/export/large-batch.test.ts

standby: dist/.built
	LINES=$(or $(LINES),100000) ALL=1 FW_BUILT=1 npx vitest run test/server/standby.test.ts

soak: bench-soak

soak-gateway: bench-soak-gateway

calibration: bench-calibration

batch: dist/.built
	$(FW) run pipelines/fairwatch/batch.yaml $(CSV) --set ingest.orderings=$(ORDER) $(if $(LIMIT),--limit $(LIMIT)) $(AS)

batch4: override ORDER = batch4
batch4: batch

revalidate: dist/.built
	$(FW) run pipelines/fairwatch/revalidate.yaml

# A pass over what failed in the last batch, as documents where that wrote documents, or over what is no answer in RESULTS: the results take the places of the old
# ones, each file whole, and what fails again is in out/failed.ndjson. RESULTS is quoted, for fw leaves out of a glob what is no file of results.
recover: DOCUMENT ?= $(wildcard out/sequential_*_legacy.json)
recover: dist/.built
	@if [ -n "$(RESULTS)" ]; then $(FW) run pipelines/fairwatch/recover-results.yaml $(foreach each,$(RESULTS),'$(each)') --set 'ingest.source=$(CSV)' $(AS); \
	elif [ -s out/failed.ndjson ]; then $(FW) run pipelines/fairwatch/recover.yaml $(AS); \
	else echo 'make recover: out/failed.ndjson is empty or not there: nothing failed'; fi

clean:
	rm -rf dist demo

node_modules/.installed: package.json package-lock.json
	npm ci --no-audit --no-fund
	@touch $@

dist/.built: node_modules/.installed $(SOURCES)
	npm run --silent build
	@touch $@

# nobody makes these: a pattern such as bench-% must not try
$(SOURCES): ;
