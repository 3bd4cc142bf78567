#!/usr/bin/env bash
# What fw ingest reads of Parquet, held to pyarrow value by value: every type, encoding, codec and layout that pyarrow, DuckDB,
# polars, fastparquet and pandas write. Then fw export's files, read by each of them.
#   test/by-hand/parquet.sh
# Needs a built dist/, and a Python with pyarrow (PYTHON names it); takes duckdb, polars, pandas and fastparquet where they are
# there: python3 -m venv V && V/bin/pip install pyarrow duckdb polars pandas fastparquet && PYTHON=V/bin/python $0
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" "$here/test/by-hand/parquet.py" "node $here/dist/bin/fw.js" "$work"
