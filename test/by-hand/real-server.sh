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

# a batch file: what the server takes, and what vllm run-batch gives a line with an error for
model=$(curl -sf "$endpoint/models" | jq -r '.data[0].id')
line() { jq -nc --arg id "$1" --arg url "$2" --arg model "$model" "{custom_id: \$id, method: \"POST\", url: \$url, body: ({model: \$model} + $3)}"; }
{
  line chat /v1/chat/completions '{messages: [{role: "user", content: "Say hello."}], max_tokens: 16}'
  line completion /v1/completions '{prompt: "Once upon a time", max_tokens: 8}'
  line embedding /v1/embeddings '{input: ["a red house", "a blue house"]}'
  line 'bad model' /v1/chat/completions '{model: "none", messages: [{role: "user", content: "?"}], max_tokens: 1}'
  line 'bad URL' /v1/bad_url '{prompt: "?"}'
  line stream /v1/completions '{prompt: "?", stream: true}'
  line field /v1/chat/completions '{messages: "no list"}'
} | head -c -1 > "$out/batch.jsonl"
fw batch -i "$out/batch.jsonl" -o "$out/answers.jsonl" --ledger "$out/ledger" --endpoint "$endpoint"
check 'exit code of a batch' "$?" 0
jq -c '[.custom_id, .response.status_code, .error.code]' "$out/answers.jsonl"
check 'lines of a batch in order' "$(cmp -s <(jq .custom_id "$out/batch.jsonl") <(jq .custom_id "$out/answers.jsonl") && echo same)" same
check 'chat and completion' "$(jq -r 'select(.error == null) | .response.body.object' "$out/answers.jsonl" | head -2 | xargs)" 'chat.completion text_completion'
check 'lines that must have an error' "$(jq -r 'select(.error and .custom_id != "embedding").custom_id' "$out/answers.jsonl" | paste -sd,)" 'bad model,bad URL,stream,field'
fw batch -i "$out/batch.jsonl" -o "$out/again.jsonl" --ledger "$out/ledger" --endpoint "$endpoint"
check 'a batch again' "$(cmp -s "$out/answers.jsonl" "$out/again.jsonl" && echo same)" same
fw batch -i /dev/null --ledger "$out/ledger" --endpoint "$endpoint" > "$out/empty.jsonl"
check 'an empty batch' "$? $(wc -c < "$out/empty.jsonl")" '0 0'
echo "kept in $out"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
