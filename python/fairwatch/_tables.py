"""Tables of four kinds as rows, and back with more columns: lists of dicts, pandas, pyarrow, polars.

None of them is imported: a table of a library that nobody has loaded cannot be there.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import enum
import hashlib
import json
import sys
import uuid
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence

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
    raise TypeError(f"table: expected {expected}, found {type(table).__name__}")


def _dicts(rows: Sequence[Row]) -> Source:
    def with_columns(new: Columns) -> list[Row]:
        return [{**row, **{name: values[at] for name, values in new.items()}} for at, row in enumerate(rows)]

    columns = list(rows[0]) if rows and isinstance(rows[0], dict) else None
    return Source("list", columns, len(rows), lambda: iter(rows), with_columns)


def _pandas(frame: Any, pd: Any) -> Source:
    names = [str(name) for name in frame.columns]
    if frame.columns.nlevels > 1 or len(set(names)) < len(names):
        raise ValueError("table: expected a name for every column, each once, found several levels, or a name twice")

    def rows() -> Iterator[Row]:
        for begin in range(0, len(frame), PART):
            part = frame.iloc[begin : begin + PART]
            lists = [_values_of(part.iloc[:, at]) for at in range(len(names))]
            yield from (dict(zip(names, values)) for values in zip(*lists))

    def with_columns(new: Columns) -> Any:
        added = {name: _series(pd, values, frame.index) for name, values in new.items()}
        return pd.concat([frame, pd.DataFrame(added, index=frame.index)], axis=1)

    return Source("pandas", names, len(frame), rows, with_columns)


def _values_of(series: Any) -> list:
    """What pandas calls missing (NaN, NaT, NA) is None."""
    values = series.tolist()
    missing = series.isna().to_numpy()
    return [None if gone else value for value, gone in zip(values, missing)] if missing.any() else values


def _series(pd: Any, values: list, index: Any) -> Any:
    """Whole numbers and booleans stay what they are beside a None, which would make them floats and objects."""
    kinds = {type(value) for value in values if value is not None}
    dtype = {frozenset({int}): "Int64", frozenset({bool}): "boolean"}.get(frozenset(kinds)) if None in values else None
    try:
        return pd.Series(values, index=index, dtype=dtype or (object if not kinds else None))
    except OverflowError:
        return pd.Series(values, index=index, dtype=object)


def _arrow(table: Any, pa: Any) -> Source:
    names = table.column_names
    if len(set(names)) < len(names):
        raise ValueError("table: expected every column once, found a name twice")

    def rows() -> Iterator[Row]:
        for batch in table.to_batches(max_chunksize=PART):
            yield from batch.to_pylist()

    def with_columns(new: Columns) -> Any:
        made = table
        for name, values in new.items():
            made = made.append_column(name, _typed(pa.array, values, (pa.ArrowInvalid, pa.ArrowTypeError)))
        return made

    return Source("pyarrow", names, table.num_rows, rows, with_columns)


def _polars(frame: Any, pl: Any) -> Source:
    def rows() -> Iterator[Row]:
        for part in frame.iter_slices(PART):
            yield from part.iter_rows(named=True)

    def with_columns(new: Columns) -> Any:
        errors = (TypeError, OverflowError, pl.exceptions.PolarsError)
        made = [_typed(lambda values: pl.Series("", values), given, errors).alias(name) for name, given in new.items()]
        return frame.with_columns(made)

    return Source("polars", frame.columns, frame.height, rows, with_columns)


def _typed(make: Callable[[list], Any], values: list, errors: tuple) -> Any:
    """A column has one type: values of several become texts of JSON, as `fw export` writes them."""
    try:
        return make(values)
    except errors:
        return make([None if value is None else json.dumps(value, ensure_ascii=False) for value in values])


def plain(value: Any) -> Any:
    """What JSON has no form for, as `fw ingest` writes it of Parquet. Raises TypeError for what nobody can write."""
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (decimal.Decimal, uuid.UUID)):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, enum.Enum):
        return value.value
    if hasattr(value, "model_dump"):  # of pydantic
        return value.model_dump(mode="json")
    if hasattr(value, "tolist"):  # of numpy: an array, or one number
        return value.tolist()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise TypeError(f"expected a value that JSON can write, found {type(value).__name__}")


# made once: json.dumps would make one for each row
_written = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=plain, separators=(",", ":")).encode


def json_line(row: Any, position: int) -> bytes:
    """Raises ValueError that names the row where JSON cannot hold it."""
    try:
        return _written(row).encode("utf-8") + b"\n"
    except (TypeError, ValueError) as error:
        raise ValueError(f"row {position}{_where(row)}: {error}") from error


def _where(row: Any) -> str:
    """The first column that JSON cannot hold."""
    for name, value in row.items() if isinstance(row, dict) else ():
        try:
            _written({name: value}).encode("utf-8")
        except (TypeError, ValueError):
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

    def __iter__(self) -> Iterator[bytes]:
        seen: Dict[str, int] = {}
        for position, row in enumerate(self._rows):
            if not isinstance(row, dict):
                raise TypeError(f"row {position}: expected a dict, found {type(row).__name__}")
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
