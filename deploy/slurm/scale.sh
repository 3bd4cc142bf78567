#!/bin/bash
# As many workers as there is work for: looks at /metrics of the server once, and submits or cancels jobs of
# workers.sbatch. docs/deploy.md explains it. By cron, on a machine that may submit, in the folder of the logs:
#
#   */2 * * * * cd ~/fw && . ./work.env && bash deploy/slurm/scale.sh >> logs/scale.log 2>&1
#
# work.env exports what workers.sbatch needs (FW_REDIS, FW_SERVER, FW_WORKER_KEY), and, with mode 0600:
#   FW_METRICS_KEY       a key of the server with the scope `metrics`, if it has keys
#   MOST=8               workers at a time
#   SECONDS_EACH=1800    a worker for each so many seconds of work: the time in which you want it done
#   SUBMIT="--partition=gpu --account=mine"   further options of sbatch
# Jobs that run are never cancelled: they end by themselves after IDLE (10m) without work. Those that wait for a node and
# are not needed any more are.
set -euo pipefail

: "${FW_SERVER:?expected the URL of the server, such as https://head:8080}"
most=${MOST:-8}
each=${SECONDS_EACH:-1800}
name=${JOB_NAME:-fw-worker}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
say() { echo "$(date -u +%FT%TZ) $*"; }

# two at a time would submit twice
exec 9> "${TMPDIR:-/tmp}/fw-scale-$(id -u)-$name.lock"
flock -n 9 || exit 0

# the key by standard input: arguments can be read by others
header() { [ -z "${FW_METRICS_KEY:-}" ] || echo "header = \"authorization: Bearer $FW_METRICS_KEY\""; }
if ! page=$(header | curl --config - --fail --silent --show-error --max-time 20 "$FW_SERVER/metrics"); then
  say "expected $FW_SERVER/metrics: nothing is changed" >&2
  exit 69
fi
# Seconds that one worker would take for all that waits and all that runs. Before the first result no rate is known: then a line counts as a second.
# Lines of a model that no worker has (unserved) start none.
work=$(awk '/^fw_shard_work_seconds\{/ { seconds += $NF; isKnown = 1 } /^fw_shard_lines\{/ { if (!/"unserved"/) lines += $NF; isThere = 1 }
  END { if (isKnown || isThere) printf "%d", (isKnown ? seconds : lines) + 0.999 }' <<< "$page")
if [ -z "$work" ]; then
  say "expected fw_shard_lines at $FW_SERVER/metrics: does the server run with --redis?" >&2
  exit 65
fi
wanted=$(((work + each - 1) / each))
[ "$wanted" -le "$most" ] || wanted=$most

# a job that ends is not counted: it takes nothing more
waiting=$(squeue --noheader --user "$(id -un)" --name "$name" --states PENDING --format %A)
running=$(squeue --noheader --user "$(id -un)" --name "$name" --states CONFIGURING,RUNNING,SUSPENDED --format %A)
count() { printf '%s' "$1" | grep -c . || true; }
have=$(($(count "$waiting") + $(count "$running")))

if [ "$wanted" -gt "$have" ]; then
  say "$work s of work, $have workers: $((wanted - have)) more"
  for ((job = have; job < wanted; job++)); do
    # shellcheck disable=SC2086 # several options in one variable
    sbatch --parsable --job-name "$name" ${SUBMIT:-} "$here/workers.sbatch"
  done
elif [ "$wanted" -lt "$have" ] && [ -n "$waiting" ]; then
  drop=$(printf '%s\n' "$waiting" | sort -rn | head -n "$((have - wanted))")
  say "$work s of work, $have workers: $(count "$drop") that wait are cancelled"
  printf '%s\n' "$drop" | xargs scancel
fi
