"""Tables of libraries: those that are not installed are skipped, and said."""

from __future__ import annotations

import json
import random
import sys

import pytest

import fairwatch as fw

ASK = "How many stars? {{ text }}"
SCHEMA = {
    "type": "object",
    "required": ["stars", "why"],
    "properties": {"stars": {"type": "integer"}, "why": {"type": "string"}},
}


def asked(table, server, **given):
    return fw.map(table, prompt=ASK, schema=SCHEMA, endpoints=server, progress=False, **given)


def test_pandas_keeps_its_index_and_order(server, reviews):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(reviews, index=["x", "y", "x"])
    frame["seen"] = pd.to_datetime(["2026-01-02", None, "2026-03-04"])
    frame.loc["y", "text"] = None
    result = asked(frame, server, items="items.ndjson")
    assert list(result.index) == ["x", "y", "x"]
    assert list(result.columns[:3]) == ["stars", "text", "seen"]
    assert str(result["answer.stars"].dtype) == "Int64"
    assert result["answer_failure"].notna().tolist() == [False, True, False]
    assert result["answer.stars"].isna().tolist() == [False, True, False]
    inputs = {item["row"]: item["input"] for item in fw.items("items.ndjson")}
    assert inputs[1]["seen"] == "2026-01-02T00:00:00" and "seen" not in inputs[2]
    assert "answer.stars" not in frame.columns
    with pytest.raises(ValueError, match="expected no column that an answer needs"):
        asked(result, server)


def test_pandas_without_rows_or_names(server):
    pd = pytest.importorskip("pandas")
    assert list(asked(pd.DataFrame({"text": []}), server).columns)[:2] == ["text", "answer.stars"]
    with pytest.raises(ValueError, match="found .text. twice"):
        asked(pd.DataFrame([[1, 2]], columns=["text", "text"]), server)


def test_pyarrow(server, reviews):
    pa = pytest.importorskip("pyarrow")
    result = asked(pa.Table.from_pylist(reviews), server)
    assert result.column_names[:4] == ["stars", "text", "answer.stars", "answer.why"]
    assert pa.types.is_integer(result.schema.field("answer.stars").type)
    assert result.column("text").to_pylist() == [row["text"] for row in reviews]


def test_polars(server, reviews):
    pl = pytest.importorskip("polars")
    result = asked(pl.DataFrame(reviews), server)
    assert result.columns[:4] == ["stars", "text", "answer.stars", "answer.why"]
    assert result["answer_failure"].dtype == pl.String
    assert result["text"].to_list() == [row["text"] for row in reviews]


def test_a_model_of_pydantic(server, reviews):
    pydantic = pytest.importorskip("pydantic", minversion="2")

    class Part(pydantic.BaseModel):
        name: str

    class Review(pydantic.BaseModel):
        mood: str
        parts: list[Part]

    for row in fw.map(reviews, prompt=ASK, schema=Review, endpoints=server, progress=False):
        Review.model_validate({"mood": row["answer.mood"], "parts": row["answer.parts"]})


def test_items_and_ledgers_as_tables(server, reviews):
    pytest.importorskip("pyarrow")
    asked(reviews, server, items="items.ndjson")
    assert fw.items("items.ndjson", to="pyarrow").num_rows == 3
    assert fw.ledger(to="pyarrow").num_rows == 3


@pytest.fixture
def without_pyarrow(monkeypatch):
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)


def test_pandas_alone_is_enough(server, reviews, without_pyarrow):
    pd = pytest.importorskip("pandas")
    asked(reviews, server, items="items.ndjson")
    items = fw.items("items.ndjson", to="pandas")
    assert sorted(items["row"]) == [1, 2, 3]
    assert sorted(items["input.text"]) == sorted(row["text"] for row in reviews)
    assert len(fw.ledger(to="pandas")) == 3
    assert isinstance(items, pd.DataFrame)
    with pytest.raises(ImportError, match="pip install pyarrow"):
        fw.items("items.ndjson", to="pyarrow")


def many_values(name):
    """Lines with each type of column, and gaps: two groups of rows of the table, and pages of them."""
    draw = random.Random(7)
    rows = []
    for n in range(30_000):
        row = {"id": f"r{n}", "whole": draw.choice([n, -n, 2**53 - 1 - n]), "constant": 1, "few": draw.choice(["", "ä", "\n,\"", None])}
        row.update(real=draw.choice([n / 7, 1e300, -0.5]), flag=draw.random() < 0.5, run=n > 20_000, long=f"{n} " + "x" * draw.randrange(600))
        row.update(list=[n, None], never=None if n else "once", exact=9007199254740991 if n % 5 else None)
        rows.append({key: value for key, value in row.items() if key == "id" or draw.random() < 0.9})
    with open(name, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return rows


def test_pandas_alone_reads_every_value(without_pyarrow):
    pd = pytest.importorskip("pandas")
    rows = many_values("many.ndjson")
    frame = fw.items("many.ndjson", to="pandas")
    for name in ("id", "whole", "constant", "few", "real", "flag", "run", "long", "never", "exact"):
        values = [None if pd.isna(value) else value for value in frame[name]]
        assert values == [row.get(name) for row in rows], name
    assert [None if pd.isna(text) else json.loads(text) for text in frame["list"]] == [row.get("list") for row in rows]
    assert [str(frame[name].dtype) for name in ("whole", "flag", "real")] == ["Int64", "boolean", "float64"]


def test_pandas_with_and_without_pyarrow_is_the_same(monkeypatch):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    many_values("many.ndjson")
    one = fw.items("many.ndjson", to="pandas")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    # the one has its texts in pyarrow
    pd.testing.assert_frame_equal(one, fw.items("many.ndjson", to="pandas"), check_dtype=False)


def test_a_table_that_needs_what_is_not_there_says_it(server, reviews):
    asked(reviews, server, items="items.ndjson")
    with pytest.raises(ValueError, match="to: expected one of dicts, pandas"):
        fw.items("items.ndjson", to="r")
    with pytest.raises(FileNotFoundError, match="expected a ledger, found nothing"):
        fw.ledger("elsewhere")


def test_no_library_is_imported():
    import subprocess
    import sys

    program = "import sys, fairwatch; print({'pandas', 'pyarrow', 'polars', 'pydantic'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "set()\n"
