#!/usr/bin/env bash
# Whole runs of fw beside each hostile server of test/hostile/servers.ts, as a table in Markdown: time and memory, what is
# on record, and whether every item came out as from the healthy endpoint alone. Some 10 minutes.
#   test/by-hand/hostile-servers.sh                 all of them, JOBS=2 at a time
#   ONLY='1 byte/s' test/by-hand/hostile-servers.sh   those whose names have these words in them
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
npx --no-install esbuild test/by-hand/hostile-servers.ts --bundle --format=esm --platform=node --log-level=warning --outfile="$work/run.mjs"
WORK=$work node "$work/run.mjs"
