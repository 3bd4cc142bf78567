#!/usr/bin/env bash
# What workers and a queue cost: CHAINS chains of five calls by one process that asks three simulated servers; by three
# workers, one at each server, that take shards from a real Redis; and by one of these workers alone. The servers are what
# everybody waits for (120 ms an answer, 32 calls at a time each). The outputs, sorted, are equal byte for byte. Bounds:
# three workers are 2.8 times as fast as one, and 3 % slower than the one process that asks all three.
#   test/by-hand/workers.sh [CHAINS]      20,000 unless given; a quarter of an hour on a quiet machine. Needs `make` to have run.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD chains=${1:-20000}
command -v redis-server > /dev/null || { apt-get update -qq && apt-get install -y -qq redis-server; }
at=$(mktemp -d)
started=()
finish() {
  for process in "${started[@]}"; do kill "$process" 2> /dev/null || true; done
  wait
  rm -rf "$at"
}
trap finish EXIT
fw() { node "$root/dist/bin/fw.js" "$@"; }
port() { node -e 'const s = require("net").createServer().listen(0, () => { console.log(s.address().port); s.close() })'; }
await_true() { until "$@" > /dev/null 2>&1; do sleep 0.05; done; }

node dist/fixtures/applications.js > "$at/prompts.csv"
cat > "$at/run.yaml" <<END
input: prompts.csv
stages:
  - ingest: { or-template: $root/pipelines/fairwatch/application.liquid, orderings: ['risk,data,regulatory,consumer', 'data,risk,regulatory,consumer', 'consumer,risk,data,regulatory', 'regulatory,consumer,risk,data'] }
  - chain: { agents: $root/pipelines/fairwatch/agents }
  - legacy-convert: { agents: $root/pipelines/fairwatch/agents, timestamp: '2026-01-01T00:00:00Z' }
END
urls=()
for n in 1 2 3; do
  node dist/bin/fw.js simulate --port 0 --seed 7 --latency 120ms > "$at/server$n.json" 2> "$at/server$n.log" & started+=($!)
  await_true test -s "$at/server$n.json"
  urls+=("$(node -p 'JSON.parse(require("fs").readFileSync(process.argv[1], "utf8")).url' "$at/server$n.json")")
done
redis=$(port)
redis-server --port "$redis" --bind 127.0.0.1 --save '' --dir "$at" > "$at/redis.log" & started+=($!)
await_true redis-cli -p "$redis" ping
export FW_WORKER_KEY=a-key-for-this-test-alone

# seconds COMMAND…: runs it, and says how long it took
seconds() {
  local from to
  from=$(date +%s%N)
  "$@"
  to=$(date +%s%N)
  awk -v ns=$((to - from)) 'BEGIN { printf "%.1f", ns / 1e9 }'
}
limit=$((chains / 4))
one() {
  fw run "$at/run.yaml" "$at/prompts.csv" --limit "$limit" --ledger "$at/one" --endpoint-limit 32 \
    --endpoint "${urls[0]}" --endpoint "${urls[1]}" --endpoint "${urls[2]}" --output "$at/one.jsonl" 2> "$at/one.log"
}
# by_workers N NAME: a coordinator and N workers, which are there before it begins
by_workers() {
  local n=$1 name=$2 listen workers=()
  listen=127.0.0.1:$(port)
  for w in $(seq "$n"); do
    # by its own name: to end the function would leave the worker behind
    node "$root/dist/bin/fw.js" work --redis "redis://127.0.0.1:$redis" --server "http://$listen" --endpoint "${urls[w - 1]}" --endpoint-limit 32 \
      --data "$at/$name-$w" 2> "$at/$name-$w.log" & workers+=($!)
  done
  fw run "$at/run.yaml" "$at/prompts.csv" --limit "$limit" --ledger "$at/$name" --redis "redis://127.0.0.1:$redis" \
    --listen "$listen" --output "$at/$name.jsonl" 2> "$at/$name.log"
  kill "${workers[@]}"
  wait "${workers[@]}" || true
}
alone=$(seconds one)
echo "one process at three servers   $alone s"
three=$(seconds by_workers 3 three)
echo "three workers                  $three s"
cmp <(sort "$at/one.jsonl") <(sort "$at/three.jsonl")
echo "equal, sorted: $(wc -l < "$at/three.jsonl") results"
tail -n 3 "$at/three.log" "$at"/three-?.log
single=$(seconds by_workers 1 single)
echo "one worker                     $single s"
cmp <(sort "$at/one.jsonl") <(sort "$at/single.jsonl")
awk -v a="$alone" -v t="$three" -v s="$single" 'BEGIN { printf "three workers are %.2f x one (2.8); the queue costs %.1f %% (3)\n", s / t, 100 * (t / a - 1) }'
