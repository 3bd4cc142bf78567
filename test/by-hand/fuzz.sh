#!/usr/bin/env bash
# The property tests of the text stages with one seed after another, until one fails, until it is stopped, or for MINUTES:
#   MINUTES=60 RUNS=1000000 test/by-hand/fuzz.sh
# SEED=… is where it begins; the seed of a failure is printed, and repeats it with npx vitest run test/integrity.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
export RUNS=${RUNS:-1000000}
export SEED=${SEED:-$((RANDOM * 32768 + RANDOM))}
end=$(($(date +%s) + ${MINUTES:-0} * 60))
while true; do
  log=$(npx vitest run test/integrity --testTimeout=0 2>&1) || {
    echo "$log"
    echo "failed: SEED=$SEED RUNS=$RUNS"
    exit 1
  }
  echo "SEED=$SEED RUNS=$RUNS: $(tail -1 <<< "$log")"
  [ -z "${MINUTES:-}" ] || [ "$(date +%s)" -lt "$end" ] || exit 0
  SEED=$((SEED + 1))
done
