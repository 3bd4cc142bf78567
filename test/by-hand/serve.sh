#!/usr/bin/env bash
# A batch of many lines through fw serve, killed three times: complete, in order, each custom_id once, calls repeated at most
# those in flight, memory at most 400 MB. Simulated servers. Some minutes.
#   test/by-hand/serve.sh [LINES] [KILLS] [SEED]      170,000 lines (500 MB) and 3 kills unless given
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
npx --no-install esbuild test/by-hand/serve.ts --bundle --format=esm --platform=node --log-level=warning --outfile="$work/run.mjs"
ROOT=$PWD node "$work/run.mjs" "$@"
