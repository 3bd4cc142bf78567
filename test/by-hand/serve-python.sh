#!/usr/bin/env bash
# The official Python client against fw serve over a simulated server.
#   test/by-hand/serve-python.sh [VERSION]      of the package openai; PYTHON names another python3 that has venv
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null; rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "openai==${1:-3.22.1}"
fw() { exec node dist/bin/fw.js "$@"; }
url() { until [ -s "$1" ]; do sleep 0.1; done; node -p 'JSON.parse(require("fs").readFileSync(process.argv[1], "utf8").split("\n")[0]).url' "$1"; }
fw simulate --port 0 --latency 5ms > "$work/simulator.json" &
simulator=$(url "$work/simulator.json")
fw serve --data "$work/data" --listen 127.0.0.1:0 --endpoint "$simulator" > "$work/server.json" &
BASE_URL="$(url "$work/server.json")/v1" "$work/venv/bin/python" test/by-hand/serve.py
