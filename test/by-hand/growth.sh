#!/usr/bin/env bash
# Seconds of processor and MB of memory at n and 4n: lines through the stages that ask nothing, files of a glob, and the start
# and the lists of `fw serve` over batches and files that are there. Each ratio has to be near 4 or below. LINES=500000 and
# FILES=50000 for more; some minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
fw="node $PWD/dist/bin/fw.js"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# measured LABEL COMMAND: "label seconds MB"
measured() {
  # verify refuses made-up lines with 1
  /usr/bin/time -o took -f '%U %S %M' bash -c "$2" > out 2> err || [ $? = 1 ]
  awk -v label="$1" '{ printf "%-24s %6.2f s %5d MB\n", label, $1 + $2, $3 / 1024 }' <(tail -1 took)
}
lines() {
  node -e 'for (let i = 0; i < +process.argv[1]; i += 1000) console.log(Array.from({ length: 1000 }, (_, j) => {
    const step = (agent, x) => ({ agent, output: { x }, rung: "clean", attempts: 1, calls: [`${agent}${i + j}`] });
    return JSON.stringify({ id: `r${i + j}`, row: i + j + 1, prompt: `Say ${i + j}`, steps: [step("a", i)], decision: step("d", j) });
  }).join("\n"))' "$1"
}
for n in "${LINES:-50000}" $((4 * ${LINES:-50000})); do
  lines "$n" > items
  (echo id,prompt && seq "$n" | sed 's/.*/r&,"Say & in words"/') > rows.csv
  measured "ingest $n" "$fw ingest rows.csv"
  for verb in validate verify 'merge --old items' 'export --format csv'; do
    measured "$verb $n" "$fw $verb < items"
  done
done
for n in "${FILES:-5000}" $((4 * ${FILES:-5000})); do
  rm -rf files data && mkdir files data data/batches data/files
  node -e 'const { mkdirSync, writeFileSync } = require("node:fs");
    for (let i = 0; i < +process.argv[1]; i++) {
      writeFileSync(`files/${i}.ndjson`, `{"id":"r${i}","prompt":"p"}\n`);
      const id = `batch_${(1.7e12 + i).toString(16).padStart(12, "0")}${"0".repeat(20)}`;
      mkdirSync(`data/batches/${id}`);
      const zero = { input: 0, cached: 0, output: 0, reasoning: 0 };
      const about = { id, owner: "local", key: null, endpoint: "/v1/chat/completions", input_file_id: "file-0" };
      const counts = { counts: { total: 1, completed: 1, failed: 0 }, usage: zero, failures: [], errors: [], times: {} };
      writeFileSync(`data/batches/${id}/state.json`, JSON.stringify({ ...about, ...counts, completion_window: "24h", window: 86400,
        status: "completed", created_at: 1.7e9, metadata: null, models: ["m"], model: "m", outputs_kept: null, outputs: null,
        asked: { body: "", idempotency: null } }));
    }' "$n"
  measured "validate, $n files" "$fw validate 'files/*.ndjson'"
  measured "merge, $n files" "$fw merge 'files/*.ndjson'"
  measured "serve, $n batches" "$fw serve --data data --listen 127.0.0.1:0 --endpoint http://127.0.0.1:1/v1 > url & server=\$!
    until [ -s url ]; do sleep 0.1; done
    node -e 'void (async () => {
      const { url } = JSON.parse(require(\"node:fs\").readFileSync(\"url\", \"utf8\"));
      for (let after = \"\"; ; ) {
        const page = await (await fetch(url + \"/v1/batches?limit=100\" + after)).json();
        if (!page.has_more) break;
        after = \"&after=\" + page.last_id;
      }
    })()'
    kill \$server; wait \$server; rm url"
done
