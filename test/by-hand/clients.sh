#!/usr/bin/env bash
# Every call of the official Python clients, openai and anthropic, against fw serve over a simulated server; prints the table of
# docs/gateway.md, and ends with 1 where a call does something else than is expected.
#   test/by-hand/clients.sh      PYTHON names a python3 that has them: pip install openai anthropic pydantic
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null; wait; rm -rf "$work"' EXIT
fw() { exec node dist/bin/fw.js "$@"; }
url() { until [ -s "$1" ]; do sleep 0.1; done; node -p 'JSON.parse(require("fs").readFileSync(process.argv[1], "utf8").split("\n")[0]).url' "$1"; }
simulator() { fw simulate --port 0 --latency 5ms "${@:2}" > "$work/$1.json" 2> "$work/log" & }
server() { fw serve --data "$work/$1" --listen 127.0.0.1:0 --endpoint "$2" > "$work/$1.json" 2> "$work/log" & }
simulator simulator
simulator faulty --faults 429=0.25,500=0.25
server open "$(url "$work/simulator.json")"
server half "$(url "$work/faulty.json")"
KEY=$(node dist/bin/fw.js keys add clients --data "$work/keyed" 2> "$work/log")
server keyed "$(url "$work/simulator.json")"
export KEY BASE_URL FAULTY_URL KEYED_URL
BASE_URL=$(url "$work/open.json") FAULTY_URL=$(url "$work/half.json") KEYED_URL=$(url "$work/keyed.json")
"${PYTHON:-python3}" test/by-hand/clients.py
