"""Holds the tables of fw export to the items that they are made of, value by value. See tables.sh."""

import json
import sys

import pandas as pd

RUNGS = ["clean", "repaired", "coerced", "unknown", "defaulted", "failed"]


def flat(prefix, value, cells):
    """An object is a column for each of its keys; anything else is a cell."""
    if isinstance(value, dict) and value:
        for key, below in value.items():
            flat(f"{prefix}.{key}", below, cells)
    elif value is not None:
        cells[prefix] = value


def cells_of(item):
    cells = {}
    rungs = []
    for step in item.pop("steps", []):
        agent = step.pop("agent")
        rungs += [step["rung"], step["saw"]]
        flat(agent, step, cells)
    if "decision" in item:
        rungs += [item["decision"]["rung"], item["decision"]["saw"]]
    if "failure" in item:
        rungs.append("failed")
    cells["rung"] = max(rungs or ["clean"], key=RUNGS.index)
    for key, value in item.items():
        flat(key, value, cells)
    return cells


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def is_same(cell, value):
    if isinstance(value, (list, dict)):
        return json.loads(cell) == value
    if isinstance(value, str):
        return cell == value or cell == compact(value)
    return cell == value or json.loads(str(cell).lower()) == value


def hold(name, rows, items):
    seen = 0
    assert len(rows) == len(items), f"{name}: {len(rows)} rows of {len(items)} items"
    for row, item in zip(rows, items):
        expected = cells_of(json.loads(item))
        for column, value in expected.items():
            assert column in row and is_same(row[column], value), f"{name}: {expected['id']}: {column}: {row.get(column)!r}, not {value!r}"
        present = {column for column, cell in row.items() if cell is not None and cell is not pd.NA and cell == cell and cell != ""}
        extra = present - expected.keys()
        assert not extra, f"{name}: {expected['id']}: {extra}"
        seen += len(expected)
    print(f"{name}: {len(rows):,} rows, {seen:,} values, all equal")


items_path, csv_path, parquet_path = sys.argv[1:]
with open(items_path, encoding="utf8") as file:
    items = [line for line in file.read().split("\n") if line]


def rows_of(frame):
    return frame.to_dict("records")


hold(f"Parquet, pandas {pd.__version__}", rows_of(pd.read_parquet(parquet_path, dtype_backend="pyarrow")), items)
hold("CSV, pandas", rows_of(pd.read_csv(csv_path, dtype=str, keep_default_na=False)), items)
try:
    import duckdb
except ImportError:
    sys.exit("no duckdb in this Python: left out")
for name, source in [("Parquet", f"'{parquet_path}'"), ("CSV", f"read_csv('{csv_path}', all_varchar = true)")]:
    found = duckdb.sql(f"select * from {source}")
    rows = [dict(zip(found.columns, row)) for row in found.fetchall()]
    hold(f"{name}, DuckDB {duckdb.__version__}", rows, items)
