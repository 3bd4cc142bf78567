"""Values that JSON has no form for, as texts; and columns of values that are of one type."""

from __future__ import annotations

import base64
import datetime
import decimal
import enum
import json
import uuid
from typing import Any, List, Optional, Sequence

#: whole numbers up to here are floats without a loss
EXACT = 2**53
#: objects that share fewer of their keys than one in so many are no rows of a table
SHARED = 20


def plain(value: Any) -> Any:
    """What JSON has no form for, as `fw ingest` writes it of Parquet. Raises TypeError for what nobody can write."""
    if hasattr(value, "isoformat"):  # dates and times, and durations of pandas
        if value != value:
            raise TypeError("expected a value that JSON can write, found NaT; None is a missing value")
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return duration_text(value // datetime.timedelta(microseconds=1) * 1_000)
    if isinstance(value, (decimal.Decimal, uuid.UUID)):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, enum.Enum):
        return value.value
    if hasattr(value, "model_dump"):  # of pydantic
        return value.model_dump(mode="json")
    if hasattr(value, "tolist"):  # of numpy: an array, or one number
        return _times(value) if getattr(value, "dtype", None) is not None and value.dtype.kind in "mM" else value.tolist()
    if type(value).__module__.split(".")[0] == "pandas" and type(value).__name__ in ("Period", "Interval"):
        return str(value)
    raise TypeError(f"expected a value that JSON can write, found {type(value).__name__}")


def _times(value: Any) -> Any:
    """Times and durations of numpy: its own `tolist` makes plain numbers of nanoseconds."""
    if value.dtype.kind == "M":
        made = value.astype(str).tolist()
        return _each(made, lambda text: None if text == "NaT" else text)
    gone = value != value
    made = value.astype("timedelta64[ns]").astype("int64").tolist()
    if gone.any():
        raise TypeError("expected a value that JSON can write, found NaT; None is a missing value")
    return _each(made, duration_text)


def _each(made: Any, change: Any) -> Any:
    return [_each(part, change) for part in made] if isinstance(made, list) else change(made)


def duration_text(nanoseconds: int) -> str:
    """ISO 8601, as pandas writes it: P1DT2H3M4.5S. A negative one has negative days."""
    whole, rest = divmod(nanoseconds, 1_000_000_000)
    minutes, seconds = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    part = f".{rest:09}".rstrip("0") if rest else ""
    return f"P{days}DT{hours}H{minutes}M{seconds}{part}S"


def with_nanoseconds(parts: Sequence[Any], whole: Sequence[Optional[int]]) -> List[Optional[str]]:
    """Times that Python holds to the microsecond, as texts with the last three digits of `whole`, their nanoseconds."""
    return [_nanosecond(part, number % 1_000) if number is not None else None for part, number in zip(parts, whole)]


def _nanosecond(part: Any, rest: int) -> str:
    if rest == 0:
        return part.isoformat()
    # the offset of the zone follows the digits
    text, naive = part.isoformat(timespec="microseconds"), part.replace(tzinfo=None).isoformat(timespec="microseconds")
    return f"{naive}{rest:03}{text[len(naive):]}"


def why_not(error: BaseException) -> str:
    """Why JSON cannot hold a value, in words of our own where those of Python are of its insides."""
    if isinstance(error, UnicodeEncodeError):
        return "expected text of Unicode, found half of a surrogate pair"
    if isinstance(error, RecursionError):
        return "expected a value that JSON can write, found one nested too deep"
    if "Out of range float" in str(error):
        return "expected a number that JSON can write, found NaN or an infinity; None is a missing value"
    return str(error)


class Texts(list):
    """Values of a column that has texts alone, or none."""


class Mixed(Exception):
    """Values of several types."""


def uniform(values: Sequence[Any]) -> list:
    """The same values as a column of one type has them: whole numbers beside others are floats, and objects have all keys of
    the column, with None for those that they lack. Raises Mixed where that would change a value.

    Libraries do this too, but polars drops keys that the first object lacks, and cuts 2.5 in a list to 2 after a [1].
    """
    present = [value for value in values if value is not None]
    kinds = {type(value) for value in present}
    if kinds == {dict}:
        if are_maps(present):
            raise Mixed
        names = dict.fromkeys(name for value in present for name in value)
        columns = [uniform([None if value is None else value.get(name) for value in values]) for name in names]
        made = zip(*columns) if names else iter([()] * len(values))
        return [None if value is None else dict(zip(names, cells)) for value, cells in zip(values, made)]
    if kinds == {list}:
        flat = iter(uniform([each for value in present for each in value]))
        return [None if value is None else [next(flat) for _each in value] for value in values]
    if kinds == {int, float}:
        if not are_exact(present):
            raise Mixed
        return [None if value is None else float(value) for value in values]
    if len(kinds) > 1:
        raise Mixed
    return list(values)


def are_exact(numbers: Sequence[Any]) -> bool:
    """Whether all of them are floats without a loss."""
    return all(isinstance(number, float) or -EXACT <= number <= EXACT for number in numbers)


def are_maps(objects: Sequence[dict]) -> bool:
    """Whether they have keys of their own, rather than those of a schema: a column for each key would be many empty ones."""
    names = {name for value in objects for name in value}
    return len(names) > SHARED and len(names) * len(objects) > SHARED * sum(len(value) for value in objects)


def as_text(value: Any) -> Optional[str]:
    """JSON, as `fw export` writes values of several types; half of a surrogate pair is escaped."""
    if value is None:
        return None
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value)
    return text
