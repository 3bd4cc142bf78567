#!/usr/bin/env bash
# Batch 4 as it was: 5,760 applications in twelve orders on three simulated servers, killed once on the way and given again,
# verified, and checked by a script that takes nothing from fw. Or LIMIT=480 rows of it. Says the time and the most memory.
#   test/by-hand/batch4.sh [FOLDER]
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
out=${1:-$(mktemp -d)}
rows=${LIMIT:-5760}
mkdir -p "$out" && cd "$out"
for name in dist pipelines schemas node_modules package.json; do ln -sfn "$here/$name" "$name"; done
node dist/fixtures/applications.js > prompts.csv
servers=()
trap 'kill "${servers[@]}" 2>/dev/null; wait 2>/dev/null' EXIT
urls=
for n in 1 2 3; do
  node dist/bin/fw.js simulate --port 0 --seed 7 --latency "${LATENCY:-40ms}" --faults "${FAULTS:-escape=0.01,429=0.01,500=0.001}" > "server$n.json" 2> "server$n.log" &
  servers+=($!)
  until [ -s "server$n.json" ]; do read -rt 0.1 < <(:) || true; done
  urls+=,$(node -p 'JSON.parse(require("fs").readFileSync(process.argv[1], "utf8")).url' "server$n.json")
done
export FW_ENDPOINTS=${urls#,}
batch4() { exec make -s -f "$here/Makefile" -o dist/.built batch4 LIMIT="$rows"; }
started=$SECONDS

# killed when about a third of the answers is on record, of some 3,300 bytes each
wanted=$((rows * 60 / 3 * 3300))
(trap - EXIT; batch4) 2> killed.log &
run=$!
until [ "$(du -sb ledger 2>/dev/null | cut -f1 || true)" -ge "$wanted" ] 2>/dev/null; do
  kill -0 "$run" || { cat killed.log; exit 1; }
  read -rt 2 < <(sleep 2) || true
done
pkill -KILL -P "$run" || true; kill -KILL "$run" || true
wait "$run" || true
echo "killed after $((SECONDS - started)) s; the same command again:"

(trap - EXIT; batch4) 2> batch4.log &
run=$!
most=0
while kill -0 "$run" 2>/dev/null; do
  for pid in $(pgrep -P "$run" || true); do
    kb=$(awk '/VmRSS/ {print $2}' "/proc/$pid/status" 2>/dev/null || echo 0)
    echo "$((SECONDS - started)) ${kb:-0}" >> memory.txt
    [ "${kb:-0}" -gt "$most" ] && most=$kb
  done
  read -rt 2 < <(sleep 2) || true
done
wait "$run" && code=0 || code=$?
tail -12 batch4.log
echo "make batch4 ended with $code after $((SECONDS - started)) s in all; the most memory was $((most / 1024)) MB"
node "$here/test/legacy/twelve-files.mjs" out prompts.csv "$rows"
node dist/bin/fw.js verify --expect $((rows * 12)) 'out/sequential_*_legacy.jsonl'
node dist/bin/fw.js ledger check ledger
time node dist/bin/fw.js report 'out/sequential_*_legacy.jsonl' --source prompts.csv --outcome approval_decision --approve approve \
  --group ethnicity_signal --group name --twins credit_score,visa_status,income,age,loan_amount --risk credit_score > report.html
echo "all of it is in $out"
