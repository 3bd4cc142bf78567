#!/usr/bin/env bash
# The tables of fw export, read back by pandas and DuckDB: every value of 5,760 answered items, in Parquet and in CSV.
#   test/by-hand/tables.sh [ITEMS.ndjson]
# Without items it answers the study's 5,760 applications on a simulated server, with faults. Needs a Python with pandas and
# pyarrow (PYTHON names it), and takes duckdb too where it is there: pip install pandas pyarrow duckdb
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
fw() { node "$here/dist/bin/fw.js" "$@"; }
work=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || :; rm -rf "$work"' EXIT
items=${1:-$work/items.ndjson}
if [ $# -eq 0 ]; then
  node "$here/dist/fixtures/applications.js" > "$work/prompts.csv"
  node "$here/dist/bin/fw.js" simulate --port 0 --latency 1ms --faults fence=0.1,null=0.02,truncated=0.05 > "$work/server" 2> "$work/log" &
  server=$!
  until [ -s "$work/server" ]; do kill -0 "$server"; read -rt 0.1 < <(:) || true; done
  fw ingest "$work/prompts.csv" | fw chain --endpoint "$(jq -r .url "$work/server")" > "$items" || [ $? -eq 1 ]
fi
for format in csv parquet; do fw export --format "$format" "$items" > "$work/table.$format"; done
"${PYTHON:-python3}" "$here/test/by-hand/tables.py" "$items" "$work/table.csv" "$work/table.parquet"
