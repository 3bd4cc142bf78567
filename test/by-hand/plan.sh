#!/usr/bin/env bash
# fw plan against a run in real time: the same chains, asked of `fw simulate` with the same preset. Prints both makespans;
# ends with 1 where they are more than a tenth apart. 500 chains on three endpoints take a minute and a half.
#   test/by-hand/plan.sh [CHAINS] [ENDPOINTS] [PRESET]
set -euo pipefail
cd "$(dirname "$0")/../.."
chains=${1:-500} endpoints=${2:-3} preset=${3:-3b-a6000}
fw="node dist/bin/fw.js"
work=$(mktemp -d)
servers=()
trap 'kill "${servers[@]}" 2>/dev/null; rm -rf "$work"' EXIT

node dist/fixtures/applications.js > "$work/prompts.csv"
pipeline=pipelines/fairwatch/chain.yaml
planned=$($fw plan $pipeline "$work/prompts.csv" --items "$chains" --endpoints "$endpoints" --preset "$preset" --json 2> /dev/null |
  jq '.table[-1].makespan_s')
for ((at = 0; at < endpoints; at++)); do
  $fw simulate --port 0 --preset "$preset" > "$work/server.$at" 2> /dev/null &
  servers+=($!)
done
urls=()
for ((at = 0; at < endpoints; at++)); do
  until [ -s "$work/server.$at" ]; do sleep 0.1; done
  urls+=(--endpoint "$(jq -r .url "$work/server.$at")")
done
$fw run $pipeline "$work/prompts.csv" --limit "$chains" "${urls[@]}" --ledger "$work/ledger" --output "$work/items.ndjson" 2> "$work/log" || true
grep ' calls · ' "$work/log"
seconds=$(sed -nE 's/.* · ([0-9.]+) s.*/\1/p' "$work/log" | tail -1)
jq -n --argjson planned "$planned" --argjson ran "$seconds" \
  '{planned_s: $planned, ran_s: $ran, off: (($planned - $ran) / $ran)} | ., if (.off | fabs) > 0.1 then ("more than a tenth apart" | halt_error(1)) else empty end'
