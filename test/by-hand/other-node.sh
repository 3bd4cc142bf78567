#!/usr/bin/env bash
# The simulator under another Node, 24 unless said: its tests hold figures of the engine to the last bit, and a digest of
# answers, which were made on Node 20; and a plan has to be the same from both.
#   test/by-hand/other-node.sh [VERSION]
set -euo pipefail
cd "$(dirname "$0")/../.."
other=(npx -y "node@${1:-24}")
"${other[@]}" node_modules/vitest/vitest.mjs run test/simulator
plan=(dist/bin/fw.js plan pipelines/fairwatch/chain.yaml fixtures/applications-60.csv --preset 3b-a6000 --endpoints 3 --items 2000 --json)
cmp <(node "${plan[@]}" 2> /dev/null) <("${other[@]}" "${plan[@]}" 2> /dev/null)
echo "fw plan: the same from $(node --version) and $("${other[@]}" --version)"
