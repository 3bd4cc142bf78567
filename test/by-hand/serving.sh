#!/usr/bin/env bash
# The figures of docs/serving.md: fw plan over the flags of a server, one flag at a time.
#   test/by-hand/serving.sh prompts.csv [ITEMS]
set -euo pipefail
cd "$(dirname "$0")/../.."
csv=${1:?the CSV of the study, which make demo writes to demo/prompts.csv} items=${2:-2000}
row() {
  local preset=$1; shift
  node dist/bin/fw.js plan pipelines/fairwatch/batch.yaml "$csv" --items "$items" --preset "$preset" --json "$@" 2>/dev/null |
    jq -r --arg p "$preset" --arg f "$*" '.table[0] as $t | [$p, $f, ($t.makespan_s | round), ($t.tokens_out_per_s | round), $t.preemptions, ($t.cached_share * 100 | round), ($t.steady.running | round), ($t.steady.kv * 100 | round)] | @tsv' ||
    printf '%s\t%s\tdoes not start\n' "$preset" "$*"
}
for preset in 3b-a6000 8b-a6000 8b-h100; do
  for n in 64 128 256 512 1024; do row "$preset" --max-num-seqs "$n"; done
  for n in 1024 2048 4096 8192 16384; do row "$preset" --max-num-seqs 512 --max-num-batched-tokens "$n"; done
  for n in 0.6 0.8 0.9 0.95; do row "$preset" --gpu-memory-utilization "$n"; done
done
