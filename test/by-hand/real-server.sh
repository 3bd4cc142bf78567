#!/usr/bin/env bash
# The pipe against a server that this project did not write (vLLM, llama.cpp, Ollama), run by hand:
#   test/by-hand/real-server.sh http://127.0.0.1:8080/v1 [ROWS]
# Checks what holds for any model under guided decoding, a random one too: every item is accounted for, every answer that
# was accepted fits its schema, and what was not accepted is a failed item in the validator's words, never a decision.
set -uo pipefail
endpoint=${1:?usage: real-server.sh ENDPOINT [ROWS]}
rows=${2:-6}
here=$(cd "$(dirname "$0")/../.." && pwd)
fw() { node "$here/dist/bin/fw.js" "$@"; }
out=$(mktemp -d)
passed=0 failed=0
check() {
  if [ "$2" = "$3" ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "$1: expected $3, found $2"; fi
}

# exit 1 where it finds trouble; the page says what
fw doctor --endpoint "$endpoint" | tee "$out/doctor.txt"
check 'schemas are obeyed' "$(grep -c '^  ok  *guided decoding' "$out/doctor.txt")" 1

fw ingest --limit "$rows" "$here/fixtures/applications-60.csv" | fw chain --endpoint "$endpoint" > "$out/items.ndjson"
check 'exit code' "$?" "$(grep -q '"failure"' "$out/items.ndjson" && echo 1 || echo 0)"
check 'items' "$(wc -l < "$out/items.ndjson")" "$rows"
check 'ids, each once' "$(jq -r .id "$out/items.ndjson" | sort -u | wc -l)" "$rows"
check 'items with neither a decision nor a failure' "$(jq -c 'select(.failure == null and .decision.output == null)' "$out/items.ndjson" | wc -l)" 0
check 'failures that are no failures of asking' \
  "$(jq -r '.failure.code // empty' "$out/items.ndjson" | grep -cvE '^(no-valid-answer|zero-confidence|prompt-too-long)$')" 0
check 'failed items with a decision' "$(jq -c 'select(.failure != null and .decision.output != null)' "$out/items.ndjson" | wc -l)" 0

# what the grammar does bound was obeyed, in rejected answers too, unless they were cut off
jq -c '.steps[], (.decision // empty) | ([.rejected[]? | select(.code != "truncated").raw] + [.raw // (.output | tojson)])[]' "$out/items.ndjson" \
  | jq -c 'fromjson? | select(. != null)' > "$out/answers.ndjson"
check 'answers with a decision that the schema does not have' \
  "$(jq -c 'select(.approval_decision != null and ([.approval_decision] | inside(["approve", "deny"]) | not))' "$out/answers.ndjson" | wc -l)" 0
check 'answers without their reasons' "$(jq -c 'select(.reasoning | type != "object")' "$out/answers.ndjson" | wc -l)" 0

fw validate "$out/items.ndjson" > "$out/again.ndjson"
check 'validating again changes nothing' "$(cmp -s "$out/items.ndjson" "$out/again.ndjson" && echo same)" same
fw legacy --failures "$out/failed.ndjson" "$out/items.ndjson" > "$out/out.jsonl"
check 'results and failures together' "$(cat "$out/out.jsonl" "$out/failed.ndjson" | wc -l)" "$rows"
jq -r 'select(.failure).failure.message' "$out/items.ndjson" | cut -c1-160
echo "kept in $out"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
