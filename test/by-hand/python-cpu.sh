#!/usr/bin/env bash
# A DataFrame of 100,000 rows by fairwatch, the same rows by fw run, and by aiohttp with fastjsonschema, in turn, against a server
# that answers everything after 20 ms with the same text. Prints a line of JSON for each: user CPU, memory.
#   test/by-hand/python-cpu.sh URL [ROWS [ROUNDS]]       URL: such a server; its answer is FOLDER/reply.json (see python-cpu.py)
# PYTHON names a python3 that has the wheel: pip install python/dist/*.whl pandas aiohttp fastjsonschema
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=${WORK:-$(mktemp -d)}
"${PYTHON:-python3}" "$here/python-cpu.py" make "$work" "${2:-100000}"
for _round in $(seq "${3:-3}"); do
  for way in fairwatch command aiohttp; do
    rm -rf "$work"/ledger-* "$work/items.ndjson"
    "${PYTHON:-python3}" "$here/python-cpu.py" "$way" "$work" "$1"
  done
done
