#!/usr/bin/env bash
# The crash tests in full, by hand (most of an hour): kill -9, a full and a failing disk at every write and sync of the
# ledger, every size of a full tmpfs, and many random schedules of faults (SCHEDULES=…, SEED=… to repeat one).
# Needs strace and libfaketime (apt-get install strace faketime), and for the tmpfs root.
set -euo pipefail
cd "$(dirname "$0")/../.."
export STEP=${STEP:-1} SCHEDULES=${SCHEDULES:-200}
npx vitest run test/crash "$@"
