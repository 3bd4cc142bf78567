#!/usr/bin/env bash
# A batch file of many lines through fw batch, run by hand:
#   RIG=… test/by-hand/batch.sh [LINES] [ROUNDS]
# RIG is the folder of mockd, the mock server of the benchmarks. Lines of 3 KB, 170,000 of them by default (500 MB).
# Killed three times and gone on: every custom_id once, in the order of the input; no memory beyond 250 MB. Then the same
# from the beginning, beside aiohttp: processor time a line, in turn.
set -uo pipefail
rig=${RIG:?RIG names no folder with mockd}
lines=${1:-170000} rounds=${2:-3}
here=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-/usr/bin/python3}
at=$(mktemp -d)
trap 'kill "$mock" 2> /dev/null; rm -rf "$at"' EXIT
cd "$at" || exit 1
passed=0 failed=0
check() {
  if [ "$2" = "$3" ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "$1: expected $3, found $2"; fi
}

node -e '
  const [lines] = process.argv.slice(1).map(Number);
  const words = "approve budget pilot quarter margin supplier delivery region forecast contract renewal customer".split(" ");
  const text = Array.from({ length: 340 }, (_, n) => words[(n * 7) % words.length]).join(" ");
  let block = "";
  for (let n = 0; n < lines; n++) {
    const messages = [{ role: "system", content: text.slice(0, 1800) }, { role: "user", content: `${n}: ${text.slice(n % 900, 1000 + (n % 900))}` }];
    block += `${JSON.stringify({ custom_id: `request-${n}`, method: "POST", url: "/v1/chat/completions", body: { model: "mock", messages, max_completion_tokens: 300, temperature: 0 } })}\n`;
    if (block.length > 1 << 20 || n === lines - 1) { require("fs").appendFileSync("input.jsonl", block); block = ""; }
  }' "$lines"
echo "input: $(wc -l < input.jsonl) lines, $(($(stat -c %s input.jsonl) / 1000000)) MB"

"$rig/mockd" 0 100-300 > mock.json & mock=$!
until [ -s mock.json ]; do read -rt 0.1 _ <> <(:) || true; done
port=$(node -p 'JSON.parse(require("fs").readFileSync("mock.json", "utf8").split("\n")[0]).port')
fw() { node "$here/dist/bin/fw.js" "$@"; }
batch=(node "$here/dist/bin/fw.js" batch -i input.jsonl -o output.jsonl --ledger ledger --endpoint "http://127.0.0.1:$port/v1" --endpoint-limit 512)
# runs a command, and says what it took: seconds of the processor, of the clock, the most memory in MB
measured() {
  "$python" -c '
import resource, subprocess, sys, time
begun = time.monotonic()
code = subprocess.run(sys.argv[1:], stderr=open("log.txt", "w")).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(f"{used.ru_utime + used.ru_stime:.2f} {time.monotonic() - begun:.1f} {used.ru_maxrss // 1024}")
sys.exit(code)' "$@"
}
# after a share of the answers is in the ledger
answered() { find ledger -name '*.ndjson' -exec cat {} + 2> /dev/null | wc -c; }

whole=$(($(stat -c %s input.jsonl)))
for quarter in 1 2 3; do
  "${batch[@]}" 2> "log-$quarter.txt" & run=$!
  most=0
  while kill -0 "$run" 2> /dev/null && [ "$(answered)" -lt $((whole * quarter / 4)) ]; do
    now=$(awk '/VmHWM/ { print int($2 / 1024) }' "/proc/$run/status" 2> /dev/null)
    [ "${now:-0}" -gt "$most" ] && most=$now
    read -rt 1 _ <> <(:) || true
  done
  kill -9 "$run" 2> /dev/null
  wait "$run" 2> /dev/null
  echo "killed at $((quarter * 25)) %: most memory $most MB"
  check "run $quarter: memory beyond 250 MB" "$((most > 250))" 0
done
read -r cpu wall memory <<< "$(measured "${batch[@]}")"
tail -4 log.txt
echo "the last of four runs: $cpu s of the processor, $wall s, most memory $memory MB"
check 'the last run: memory beyond 250 MB' "$((memory > 250))" 0
check 'lines' "$(wc -l < output.jsonl)" "$lines"
check 'ids in the order of the input' "$(cmp -s <(jq -r .custom_id input.jsonl) <(jq -r .custom_id output.jsonl) && echo same)" same
check 'errors' "$(grep -c '"error":{' output.jsonl)" 0

for round in $(seq "$rounds"); do
  rm -rf ledger output.jsonl
  read -r cpu wall memory <<< "$(measured "${batch[@]}")"
  echo "round $round: fw batch:  $("$python" -c "print(round($cpu / $lines * 1e6))") µs of the processor a line, $wall s, most memory $memory MB"
  rm -f other.jsonl
  read -r cpu wall memory <<< "$(measured "$python" "$here/test/by-hand/batch-aiohttp.py" input.jsonl other.jsonl "http://127.0.0.1:$port" 512)"
  echo "round $round: aiohttp:   $("$python" -c "print(round($cpu / $lines * 1e6))") µs of the processor a line, $wall s, most memory $memory MB"
  check "round $round: lines of aiohttp" "$(wc -l < other.jsonl)" "$lines"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
