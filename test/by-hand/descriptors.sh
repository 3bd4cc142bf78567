#!/usr/bin/env bash
# `ulimit -n` of 64, 256 and 1,024, one to eight endpoints, with and without a ledger, the second try of each on the ledger
# of the first: every run has to finish, and no call to be asked twice. LIMITS=… and ENDPOINTS=… choose. Some minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
fw="node dist/bin/fw.js"
work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2> /dev/null || true; rm -rf "$work"' EXIT
$fw ingest fixtures/applications-60.csv > "$work/items" 2> /dev/null
for copy in 1 2 3 4 5 6; do sed "s/\"id\":\"/\"id\":\"$copy-/" "$work/items"; done > "$work/in"
urls=()
for server in 1 2 3 4 5 6 7 8; do
  $fw simulate --port 0 --latency 100ms > "$work/server-$server" 2> /dev/null &
  pids+=($!)
done
for server in 1 2 3 4 5 6 7 8; do
  until [ -s "$work/server-$server" ]; do sleep 0.1; done
  urls+=("$(head -1 "$work/server-$server" | jq -r .url)")
done
for limit in ${LIMITS:-64 256 1024}; do
  for count in ${ENDPOINTS:-1 2 4 8}; do
    flags=""
    for ((at = 0; at < count; at++)); do flags="$flags --endpoint ${urls[at]}"; done
    for ledger in "--ledger $work/ledger-$limit-$count" "--ledger $work/ledger-$limit-$count" ""; do
      code=0
      (ulimit -n "$limit"; $fw chain --in-flight 1200 $ledger $flags < "$work/in" > "$work/out" 2> "$work/err") || code=$?
      told=$(grep -oE '[0-9,]+ calls( \+ [0-9,]+ replayed)?' "$work/err" | tail -1)
      bound=$(grep -oE 'at most [0-9]+ calls' "$work/err" | head -1 || true)
      kind=${ledger:+with}
      echo "ulimit $limit, endpoints $count, ${kind:-without} a ledger: exit $code, $told, ${bound:-no bound}"
    done
  done
done
