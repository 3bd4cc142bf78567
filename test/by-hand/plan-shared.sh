#!/usr/bin/env bash
# fw plan against runs in real time, of inputs whose lines begin alike: questions about documents, all of a document's
# together, question by question, and a shuffled batch file with embeddings among its lines. The servers are `fw simulate`
# with the same preset, whose KV cache holds a part of the documents. Prints both makespans and what was cached; ends with
# 1 where they are further apart than the plan's error. Six minutes.
#   test/by-hand/plan-shared.sh [DOCUMENTS] [QUESTIONS]
set -euo pipefail
cd "$(dirname "$0")/../.."
documents=${1:-80} questions=${2:-8}
fw="node dist/bin/fw.js"
work=$(mktemp -d)
servers=()
trap 'kill "${servers[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT

cat > "$work/make.mjs" <<'JS'
import { writeFileSync } from 'node:fs';
const [folder, documents, questions] = process.argv.slice(2);
let word = 1;
const random = () => (word = (Math.imul(word, 1_664_525) + 1_013_904_223) >>> 0) / 2 ** 32;
const words = 'the file holds evidence on this point and none of what it says speaks against a later one'.split(' ');
const text = length => {
  let so = '';
  while (so.length < length) so += `${words[Math.floor(random() * words.length)]} `;
  return so.slice(0, length);
};
const pairs = Array.from({ length: documents * questions }, (_, at) => [Math.floor(at / questions), at % questions]);
const shown = Array.from({ length: documents }, (_, at) => `Document ${at}. ${text(8_000)}`);
const asked = Array.from({ length: questions }, (_, at) => `Question ${at}: ${text(100)}`);
const prompt = ([document, question]) => `${shown[document]}\n\n${asked[question]}`;
const csv = list => `id,prompt\n${list.map((pair, at) => `${at},"${prompt(pair)}"\n`).join('')}`;
writeFileSync(`${folder}/by-document.csv`, csv(pairs));
writeFileSync(`${folder}/by-question.csv`, csv([...pairs].sort((a, b) => a[1] - b[1])));
const lines = pairs.map((pair, at) =>
  at % 8 === 7
    ? { url: '/v1/embeddings', body: { input: prompt(pair) } }
    : { url: '/v1/chat/completions', body: { messages: [{ role: 'user', content: prompt(pair) }], max_tokens: 64, ignore_eos: true } },
);
const order = lines.map(line => [random(), line]).sort(([a], [b]) => a - b);
const line = ([, { url, body }], at) => JSON.stringify({ custom_id: `r-${at}`, method: 'POST', url, body });
writeFileSync(`${folder}/shuffled.jsonl`, order.map((each, at) => `${line(each, at)}\n`).join(''));
JS
node "$work/make.mjs" "$work" "$documents" "$questions"
mkdir "$work/agents"
cat > "$work/agents/reader.yaml" <<'YAML'
{ key: reader, short: reader, display: Reader, role: agent, persona: You answer questions about a document., sampling: { temperature: 0.7, max_tokens: 200 } }
YAML
cat > "$work/agents.yaml" <<YAML
stages: [{ ingest: {} }, { agent-step: { agent: reader, agents: $work/agents } }]
YAML
cat > "$work/batch.yaml" <<'YAML'
stages: [{ ingest: { format: openai-batch } }, { request: {} }]
YAML
# slow, so that what a busy machine adds is little
jq '.weights_ms *= 4 | .ms_per_token *= 4 | .kv_us_per_1k_tokens *= 4 | .kv_tokens = 90000 | .max_num_seqs = 64 | .name = "small"' \
  products/simulator/presets/8b-a100-80g.json > "$work/small.json"

far=0
# against PIPELINE INPUT ENDPOINTS
against() {
  local planned urls=() at ended line
  planned=$($fw plan "$work/$1" "$work/$2" --endpoints "$3" --preset "$work/small.json" --json 2> /dev/null | jq '.table[-1]')
  servers=()
  for ((at = 0; at < $3; at++)); do
    rm -f "$work/server.$at"
    $fw simulate --port 0 --preset "$work/small.json" > "$work/server.$at" 2> /dev/null &
    servers+=($!)
  done
  for ((at = 0; at < $3; at++)); do
    until [ -s "$work/server.$at" ]; do sleep 0.1; done
    urls+=(--endpoint "$(jq -r .url "$work/server.$at")")
  done
  $fw run "$work/$1" "$work/$2" "${urls[@]}" --ledger "$work/ledger.$2" --output "$work/out.$2" 2> "$work/log" || true
  kill "${servers[@]}"
  wait "${servers[@]}" 2> /dev/null || true
  line=$(grep ' calls · ' "$work/log" | tail -1)
  ended=$(sed -nE 's/.* · ([0-9.]+) s.*/\1/p' "$work/log" | tail -1)
  echo "$2, $3 endpoints: $line"
  jq -nc --argjson planned "$planned" --argjson ran "${ended:-0}" \
    '{planned_s: $planned.makespan_s, ran_s: $ran, off: ($ran / $planned.makespan_s - 1), error: $planned.error, spread: $planned.spread, planned_cached: $planned.cached_share, calls: $planned.calls, tokens_in: $planned.tokens_in, tokens_out: $planned.tokens_out}' |
    tee "$work/told"
  jq -e '(.off | fabs) * 100 <= (.error | capture("(?<share>[0-9]+)").share | tonumber)' "$work/told" > /dev/null || far=1
}

against agents.yaml by-document.csv 2
against agents.yaml by-question.csv 2
against batch.yaml shuffled.jsonl 2
exit $far
