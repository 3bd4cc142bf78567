"""Values of tables as prompts see them, and columns of answers: nothing is changed without a word."""

from __future__ import annotations

import datetime
import decimal
import json

import pytest

from fairwatch import _values
from fairwatch._tables import Lines, source_of
from fairwatch._task import expect_prompt

DAY = datetime.datetime(2026, 1, 2, 3, 4, 5, 6)
#: of answers: values → what a column of one type makes of them; None: texts of JSON
COLUMNS = [
    ([1, None, 2], [1, None, 2]),
    ([True, None, False], [True, None, False]),
    (["a", None, "b"], ["a", None, "b"]),
    ([1, 2.5, None], [1.0, 2.5, None]),
    ([[1], [2.5], None], [[1.0], [2.5], None]),
    ([{"a": 1}, {"b": [{"c": "x"}, {"d": 2}]}, None], "filled"),
    ([{"a": 1}, {"a": "x"}, None], None),
    ([[True], [1], None], None),
    ([2**60 + 1, 2.5, None], None),
    (["\ud800", None, "b"], None),
    ([{f"key {n}": n} for n in range(60)], None),
]
FILLED = [{"a": 1, "b": None}, {"a": None, "b": [{"c": "x", "d": None}, {"c": None, "d": 2}]}, None]


def cells(table, prompt=None):
    """What the column `a` has in the lines that the program reads."""
    return [json.loads(line).get("a") for line in Lines(source_of(table).rows(), None, prompt)]


def typed(table, values):
    return source_of(table).with_columns({"new": values})["new"]


def expected_of(values, made):
    return [_values.as_text(value) for value in values] if made is None else FILLED if made == "filled" else made


@pytest.mark.parametrize(("values", "made"), COLUMNS)
def test_columns_of_answers_in_arrow_and_polars(values, made):
    libraries = []
    for name, kind, back in (("pyarrow", "table", "to_pylist"), ("polars", "DataFrame", "to_list")):
        try:
            library = __import__(name)
        except ImportError:
            continue
        libraries.append(library)
        column = typed(getattr(library, kind)({"x": list(range(len(values)))}), values)
        found = getattr(column, back)()
        assert found == expected_of(values, made), name
        assert [type(value) for value in found] == [type(value) for value in expected_of(values, made)], name
    if not libraries:
        pytest.skip("neither pyarrow nor polars is installed")


def test_columns_of_answers_in_pandas():
    pd = pytest.importorskip("pandas")
    for values, _made in COLUMNS:
        index = pd.MultiIndex.from_tuples([("x", None)] * len(values))
        column = typed(pd.DataFrame({0: range(len(values))}, index=index), values)
        assert [None if value is pd.NA or value != value else value for value in column.tolist()] == values
        assert column.index is index or column.index.equals(index)
    assert str(typed(pd.DataFrame({"x": [1, 2]}), [1, None]).dtype) == "Int64"


def test_pandas_as_prompts_see_it():
    pd = pytest.importorskip("pandas")
    np = pytest.importorskip("numpy")
    whole = 2**62 + 1
    known = [
        (pd.array([1, None, whole], dtype="Int64"), [1, None, whole]),
        (pd.array([True, None], dtype="boolean"), [True, None]),
        (pd.array(["x", None], dtype="string"), ["x", None]),
        (pd.Categorical([3, None, 1]), [3, None, 1]),
        (pd.to_datetime(["2026-01-02 03:04:05.123456789+02:00", None]), ["2026-01-02T03:04:05.123456789+02:00", None]),
        (pd.to_timedelta(["1h", None, "1.5s"]), ["P0DT1H0M0S", None, "P0DT0H0M1.5S"]),
        (pd.period_range("2026-01", periods=1, freq="M"), ["2026-01"]),
        (pd.interval_range(0, 1), ["(0, 1]"]),
        ([2**70, None, -(2**65)], [2**70, None, -(2**65)]),
        ([decimal.Decimal("1.10"), decimal.Decimal("NaN")], ["1.10", None]),
        ([b"\xff\x00", float("nan"), None], ["/wA=", None, None]),
        ([np.array([1, 2]), {"d": np.int64(3), "t": datetime.date(2026, 1, 1)}], [[1, 2], {"d": 3, "t": "2026-01-01"}]),
        ([np.array(["2026-01-01"], "M8[ns]"), [np.timedelta64(3, "s")]], [["2026-01-01T00:00:00.000000000"], ["P0DT0H0M3S"]]),
    ]
    for values, seen in known:
        assert cells(pd.DataFrame({"a": values})) == seen
    assert cells(pd.DataFrame(index=range(2))) == [None, None]
    assert json.loads(next(iter(Lines(source_of(pd.DataFrame([["x"]])).rows(), "0", None)))) == {"0": "x"}


def test_pandas_over_arrow_as_prompts_see_it():
    pd = pytest.importorskip("pandas")
    pa = pytest.importorskip("pyarrow")
    known = [
        (pa.int64(), [1, None, 2**62 + 1]),
        (pa.list_(pa.int64()), [[1, None], None]),
        (pa.struct([("b", pa.int64()), ("c", pa.string())]), [{"b": 1, "c": None}, None]),
    ]
    for kind, values in known:
        assert cells(pd.DataFrame({"a": pd.Series(values, dtype=pd.ArrowDtype(kind))})) == values
    zoned = pd.Series([pd.Timestamp("2026-01-01T00:00:00.000000001", tz="Europe/Berlin")], dtype=pd.ArrowDtype(pa.timestamp("ns", "Europe/Berlin")))
    assert cells(pd.DataFrame({"a": zoned})) == ["2026-01-01T00:00:00.000000001+01:00"]


def test_arrow_as_prompts_see_it():
    pa = pytest.importorskip("pyarrow")
    ns = 1_767_323_045_000_006_007  # 2026-01-02T03:04:05.000006007
    known = [
        (pa.array([2**64 - 1], pa.uint64()), [2**64 - 1]),
        (pa.array([ns, None, -1], pa.timestamp("ns")), ["2026-01-02T03:04:05.000006007", None, "1969-12-31T23:59:59.999999999"]),
        (pa.array([ns], pa.timestamp("ns", "Europe/Berlin")), ["2026-01-02T04:04:05.000006007+01:00"]),
        (pa.array([1, 1_000], pa.time64("ns")), ["00:00:00.000000001", "00:00:00.000001"]),
        (pa.array([1], pa.duration("ns")), ["P0DT0H0M0.000000001S"]),
        (pa.array([DAY], pa.timestamp("us")), ["2026-01-02T03:04:05.000006"]),
        (pa.array(["x", None]).dictionary_encode(), ["x", None]),
        (pa.array([b"\xff"]), ["/w=="]),
        (pa.array([{"b": None, "c": [1]}]), [{"b": None, "c": [1]}]),
    ]
    for column, seen in known:
        assert cells(pa.table({"a": column})) == seen
    with pytest.raises(ValueError, match="column 'a', from row 0 on: "):
        cells(pa.table({"a": pa.array([10**12], pa.timestamp("s"))}))


def test_polars_as_prompts_see_it():
    pl = pytest.importorskip("polars")
    ns = pl.Series([1_767_323_045_000_006_007, None, -1], dtype=pl.Int64)
    known = [
        (pl.Series([2**100, None], dtype=pl.Int128), [2**100, None]),
        (ns.cast(pl.Datetime("ns")), ["2026-01-02T03:04:05.000006007", None, "1969-12-31T23:59:59.999999999"]),
        (ns[:1].cast(pl.Datetime("ns", "Europe/Berlin")), ["2026-01-02T04:04:05.000006007+01:00"]),
        (pl.Series([1], dtype=pl.Int64).cast(pl.Time), ["00:00:00.000000001"]),
        (pl.Series([datetime.timedelta(days=-1, seconds=1)]), ["P-1DT0H0M1S"]),
        (pl.Series(["x", None], dtype=pl.Categorical), ["x", None]),
        (pl.Series([[1, None], None]), [[1, None], None]),
        (pl.Series([decimal.Decimal("1.10")]), ["1.10"]),
    ]
    for column, seen in known:
        assert cells(pl.DataFrame({"a": column})) == seen
    assert len(cells(pl.DataFrame(height=3))) == 3
    with pytest.raises(TypeError, match=r"found LazyFrame; table.collect\(\) makes one"):
        source_of(pl.DataFrame({"a": [1]}).lazy())
    with pytest.raises(ValueError, match="row 1, column 'a': expected a number that JSON can write, found NaN"):
        cells(pl.DataFrame({"a": [1.0, float("nan")]}))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("inf"), "found NaN or an infinity"),
        ([{"b": float("nan")}], "found NaN or an infinity"),
        ("\ud800", "half of a surrogate pair"),
        ({1, 2}, "found set"),
        ({(1, 2): 3}, "not tuple"),
    ],
)
def test_what_json_cannot_hold_is_said_with_its_row_and_column(value, message):
    with pytest.raises(ValueError, match=f"row 1, column 'a': .*{message}"):
        cells([{"a": 1}, {"x": 0, "a": value}])


def test_columns_that_are_added_are_not_taken():
    with pytest.raises(ValueError, match="row 0: expected no column 'fw_id'"):
        cells([{"fw_id": 1}])
    with pytest.raises(ValueError, match="row 0: expected no column 'fw_prompt'"):
        cells([{"fw_prompt": 1}], prompt=str)


@pytest.mark.parametrize("name", ["0", "first name", "answer.mood"])
def test_a_column_whose_name_is_no_word_is_written_in_brackets(name):
    with pytest.raises(ValueError, match=r"is a word, found '.*'; write \{\{ \['"):
        expect_prompt(f"Rate: {{{{ {name} | upcase }}}}", [name])
    expect_prompt(f"Rate: {{{{ ['{name}'] }}}}", [name])
