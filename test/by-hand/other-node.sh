#!/usr/bin/env bash
# The simulator under another Node, 24 unless said: its tests hold figures of the engine to the last bit, and a digest of
# answers, which were made on Node 20.
#   test/by-hand/other-node.sh [VERSION]
set -euo pipefail
cd "$(dirname "$0")/../.."
npx -y "node@${1:-24}" node_modules/vitest/vitest.mjs run test/simulator
