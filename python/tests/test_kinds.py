"""Tables of libraries: those that are not installed are skipped, and said."""

from __future__ import annotations

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
    pytest.importorskip("pandas")
    assert sorted(fw.items("items.ndjson", to="pandas")["row"]) == [1, 2, 3]


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
