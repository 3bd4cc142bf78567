"""Tables of four kinds as rows, and back with more columns: lists of dicts, pandas, pyarrow, polars.

None of them is imported: a table of a library that nobody has loaded cannot be there.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence

from ._values import Mixed, Texts, are_exact, as_text, duration_text, plain, uniform, with_nanoseconds, why_not

Row = Dict[str, Any]
Columns = Dict[str, List[Any]]
#: rows that are taken out of a table at once
PART = 1_000


class Source:
    """A table as rows. `size` is None where only its end tells; `with_columns` gives it back with more columns."""

    def __init__(
        self,
        kind: str,
        columns: Optional[Sequence[str]],
        size: Optional[int],
        rows: Callable[[], Iterator[Row]],
        with_columns: Callable[[Columns], Any],
    ) -> None:
        self.kind = kind
        self.columns = columns
        self.size = size
        self.rows = rows
        self.with_columns = with_columns


def source_of(table: Any) -> Source:
    """Raises TypeError with what was expected where it is no table."""
    for library, kind, opened in (
        ("pandas", "DataFrame", _pandas),
        ("pyarrow", "Table", _arrow),
        ("polars", "DataFrame", _polars),
    ):
        module = sys.modules.get(library)
        if module is not None and isinstance(table, getattr(module, kind, ())):
            return opened(table, module)
    if isinstance(table, (list, tuple)):
        return _dicts(table)
    expected = "a DataFrame of pandas or polars, a pyarrow.Table or a list of dicts"
    found = type(table).__name__
    advice = {"LazyFrame": "; table.collect() makes one", "RecordBatch": "; pyarrow.table(batch) makes one", "Series": "; table.to_frame() makes one"}
    raise TypeError(f"table: expected {expected}, found {found}{advice.get(found, '')}")


def _dicts(rows: Sequence[Row]) -> Source:
    def with_columns(new: Columns) -> list[Row]:
        return [{**row, **{name: values[at] for name, values in new.items()}} for at, row in enumerate(rows)]

    columns = [str(name) for name in rows[0]] if rows and isinstance(rows[0], dict) else None
    return Source("list", columns, len(rows), lambda: iter(rows), with_columns)


def _pandas(frame: Any, pd: Any) -> Source:
    names = [str(name) for name in frame.columns]
    if frame.columns.nlevels > 1:
        raise ValueError("table: expected one level of column names, found several; frame.columns = ['_'.join(map(str, name)) for name in frame.columns] joins them")
    _expect_once(names)

    def rows() -> Iterator[Row]:
        for begin in range(0, len(frame), PART):
            part = frame.iloc[begin : begin + PART]
            lists = [_values_of(part.iloc[:, at]) for at in range(len(names))]
            yield from _rows_of(names, lists, len(part))

    def with_columns(new: Columns) -> Any:
        added = {name: _series(pd, values, frame.index) for name, values in new.items()}
        return pd.concat([frame, pd.DataFrame(added, index=frame.index)], axis=1)

    return Source("pandas", names, len(frame), rows, with_columns)


def _expect_once(names: Sequence[str]) -> None:
    seen: set = set()
    twice = next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]
    if twice is not None:
        raise ValueError(f"table: expected a name for every column, each once, found {twice!r} twice")


def _rows_of(names: Sequence[str], lists: Sequence[list], size: int) -> Iterator[Row]:
    """`lists`: the values of each column. A table without columns has rows too."""
    if not names:
        yield from ({} for _row in range(size))
    for values in zip(*lists):
        yield dict(zip(names, values))


def _values_of(series: Any) -> list:
    """What pandas calls missing (NaN, NaT, NA) is None."""
    values = series.tolist()
    missing = series.isna().to_numpy()
    return [None if gone else value for value, gone in zip(values, missing)] if missing.any() else values


def _series(pd: Any, values: list, index: Any) -> Any:
    """Whole numbers and booleans stay what they are beside a None, which would make them floats and objects."""
    present = [value for value in values if value is not None]
    kinds = {type(value) for value in present}
    has_gaps = len(present) < len(values)
    dtype: Any = {frozenset({int}): "Int64", frozenset({bool}): "boolean"}.get(frozenset(kinds)) if has_gaps else None
    if not kinds or (kinds == {int, float} and not are_exact(present)):
        dtype = object
    try:
        return pd.Series(values, index=index, dtype=dtype)
    except (OverflowError, UnicodeEncodeError):  # the second: half of a surrogate pair, in a column of Arrow's texts
        return pd.Series(values, index=index, dtype=object)


def _arrow(table: Any, pa: Any) -> Source:
    names = table.column_names
    _expect_once(names)

    def values_of(column: Any) -> list:
        kind = column.type
        if not (pa.types.is_temporal(kind) and getattr(kind, "unit", None) == "ns"):
            return column.to_pylist()
        whole = column.cast(pa.int64()).to_pylist()
        if pa.types.is_duration(kind):
            return [None if number is None else duration_text(number) for number in whole]
        coarse = pa.time64("us") if pa.types.is_time(kind) else pa.timestamp("us", kind.tz)
        parts = pa.array([None if number is None else number // 1_000 for number in whole], pa.int64()).cast(coarse)
        return with_nanoseconds(parts.to_pylist(), whole)

    def rows() -> Iterator[Row]:
        begin = 0
        for batch in table.to_batches(max_chunksize=PART):
            lists = [_read(values_of, column, name, begin) for name, column in zip(names, batch.columns)]
            yield from _rows_of(names, lists, batch.num_rows)
            begin += batch.num_rows

    def with_columns(new: Columns) -> Any:
        errors = (pa.ArrowException, OverflowError, UnicodeEncodeError)
        made = table
        for name, values in new.items():
            made = made.append_column(name, _typed(pa.array, pa.string(), values, errors))
        return made

    return Source("pyarrow", names, table.num_rows, rows, with_columns)


def _polars(frame: Any, pl: Any) -> Source:
    def values_of(series: Any) -> list:
        kind = series.dtype
        if kind != pl.Time and getattr(kind, "time_unit", None) != "ns":
            return series.to_list()
        numbers = series.to_physical()
        if kind == pl.Duration:
            return [None if number is None else duration_text(number) for number in numbers.to_list()]
        parts = series if kind == pl.Time else (numbers // 1_000).cast(pl.Datetime("us", kind.time_zone))
        return with_nanoseconds(parts.to_list(), numbers.to_list())

    def rows() -> Iterator[Row]:
        for begin in range(0, frame.height, PART):
            part = frame.slice(begin, PART)
            lists = [_read(values_of, series, series.name, begin) for series in part.get_columns()]
            yield from _rows_of(frame.columns, lists, part.height)

    def with_columns(new: Columns) -> Any:
        errors = (TypeError, OverflowError, UnicodeEncodeError, pl.exceptions.PolarsError)
        made = [_typed(lambda *values: pl.Series("", *values), pl.String, given, errors).alias(name) for name, given in new.items()]
        return frame.with_columns(made)

    return Source("polars", frame.columns, frame.height, rows, with_columns)


def _read(values_of: Callable[[Any], list], column: Any, name: str, begin: int) -> list:
    """Raises ValueError that names the column where Python cannot hold a value, such as the year 20000."""
    try:
        return values_of(column)
    except (ArithmeticError, ValueError) as error:
        raise ValueError(f"column {name!r}, from row {begin} on: {error}") from error


def _typed(make: Callable[..., Any], text: Any, values: list, errors: tuple) -> Any:
    """A column has one type: values of several become texts of JSON, as `fw export` writes them. `text`: the type of texts,
    which columns of texts have without any too."""
    try:
        return make(values, text) if isinstance(values, Texts) else make(uniform(values))
    except (Mixed, *errors):
        return make([as_text(value) for value in values], text)


# made once: json.dumps would make one for each row
_written = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=plain, separators=(",", ":")).encode


def json_line(row: Any, position: int) -> bytes:
    """Raises ValueError that names the row where JSON cannot hold it."""
    try:
        return _written(row).encode("utf-8") + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"row {position}{_where(row)}: {why_not(error)}") from error


def _where(row: Any) -> str:
    """The first column that JSON cannot hold."""
    for name, value in row.items() if isinstance(row, dict) else ():
        try:
            _written({name: value}).encode("utf-8")
        except (TypeError, ValueError, RecursionError):
            return f", column {name!r}"
    return ""


#: columns that are added for the program, beside those of the table
ID = "fw_id"
PROMPT = "fw_prompt"


class Lines:
    """The rows as lines of JSON for `fw ingest`, with an id for each.

    The id is that of the column `id`, else a hash of the row: the same row has the same id in any part of the table. The
    second of two equal rows has another one, or it would not be asked.
    """

    def __init__(self, rows: Iterable[Row], id_column: Optional[str], prompt: Optional[Callable[[Row], str]]) -> None:
        self._rows = rows
        self._id_column = id_column
        self._prompt = prompt
        self._own = [*([ID] if id_column is None else []), *([PROMPT] if prompt is not None else [])]

    def __iter__(self) -> Iterator[bytes]:
        seen: Dict[str, int] = {}
        for position, row in enumerate(self._rows):
            if not isinstance(row, dict):
                raise TypeError(f"row {position}: expected a dict, found {type(row).__name__}")
            for name in self._own:
                if name in row:
                    raise ValueError(f"row {position}: expected no column {name!r}, which is added here; give it another name")
            if self._prompt is not None:
                row = {**row, PROMPT: self._prompt(row)}
            line = json_line(row, position)
            if self._id_column is None:
                digest = hashlib.sha256(line).hexdigest()[:16]
                times = seen[digest] = seen.get(digest, 0) + 1
                name = digest if times == 1 else f"{digest}-{times}"
                comma = b"," if len(row) > 0 else b""
                line = line[:-2] + comma + f'"{ID}":"{name}"}}\n'.encode()
            yield line
