#!/usr/bin/env bash
# fw tune on a space of 24 settings of the simulator, in real time, with a preset whose constants are 20 % off: three seeds,
# each with its own errors. The truth is the same engine with the right constants in virtual time. Some 15 minutes a seed; ends
# with 1 where a study is not within 2 % of the best, or starts more than eight settings in its race.
#   test/by-hand/tune.sh          all three
#   SEEDS=2 test/by-hand/tune.sh  one of them
set -euo pipefail
cd "$(dirname "$0")/../.."
work=${WORK:-$(mktemp -d)}
trap '[ -n "${WORK:-}" ] || rm -rf "$work"' EXIT
npx --no-install esbuild test/by-hand/tune.ts --bundle --platform=node --format=esm --outfile="$work/tune.mjs" --log-level=error
WORK=$work node "$work/tune.mjs"
