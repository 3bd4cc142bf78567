#!/usr/bin/env bash
# The crash tests in full, by hand (most of an hour): kill -9, a full and a failing disk at every write and sync of the
# ledger, every size of a full tmpfs, and many random schedules of faults, with workers too
# (SCHEDULES=…, ROUNDS=…, SEED=… to repeat one).
# Needs strace, libfaketime and Redis (apt-get install strace faketime redis-server), and for the tmpfs root.
set -euo pipefail
cd "$(dirname "$0")/../.."
export STEP=${STEP:-1} SCHEDULES=${SCHEDULES:-200} ROUNDS=${ROUNDS:-30}
npx vitest run test/crash "$@"
