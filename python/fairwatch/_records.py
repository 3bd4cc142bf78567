"""Items and ledgers as tables, and a simulated server for tests."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path as File
from typing import Any, List, Optional, Union

from ._process import Process
from ._task import flags
from .errors import KINDS, FairwatchError

Path = Union[str, "os.PathLike[str]"]
KINDS_OF_TABLE = ("dicts", "pandas", "pyarrow", "polars")


def items(path: Path, to: str = "dicts") -> Any:
    """The items of a file, as `map(items=…)` and `fw chain` write it.

    "dicts": a list of them, each as it is written. "pandas", "pyarrow" and "polars": the table of `fw export`, a row for
    each item (docs/tables.md). pandas needs no pyarrow for it, but reads a large table sooner with it.
    """
    if to == "dicts":
        with open(path, "rb") as lines:
            return [json.loads(line) for line in lines if line.strip()]
    return _table(os.path.abspath(path), to)


def ledger(path: Optional[Path] = None, to: str = "dicts") -> Any:
    """Every try of a ledger, with what was asked and what came of it, as `fw ledger export` writes it.

    `path`: the folder; else FW_LEDGER, else ledger/ in the current folder. `to` as for `items`.
    """
    folder = os.path.abspath(path if path is not None else os.environ.get("FW_LEDGER") or "ledger")
    if not os.path.exists(folder):
        raise FileNotFoundError(f"{folder}: expected a ledger, found nothing")
    lines = _output(["ledger", "export", "--ledger", folder])
    if to == "dicts":
        return [json.loads(line) for line in lines]
    with tempfile.TemporaryDirectory(prefix="fairwatch-") as home:
        calls = File(home, "calls.ndjson")
        calls.write_bytes(b"".join(lines))
        return _table(str(calls), to)


def _output(arguments: List[str]) -> List[bytes]:
    process = Process(arguments)
    try:
        lines = list(process)
        code = process.wait()
    except BaseException:
        process.end()
        raise
    if code not in (0, 1):
        raise FairwatchError(process.last_words(), KINDS.get(code, "bug"), tuple(process.said))
    return lines


def _table(path: str, to: str) -> Any:
    if to not in KINDS_OF_TABLE:
        raise ValueError(f"to: expected one of {', '.join(KINDS_OF_TABLE)}, found {to!r}")
    with tempfile.TemporaryDirectory(prefix="fairwatch-") as home:
        made = os.path.join(home, "items.parquet")
        with open(made, "wb") as file:
            file.writelines(_output(["export", "--format", "parquet", path]))
        if to == "polars":
            import polars  # type: ignore[import-not-found]

            return polars.read_parquet(made)
        try:
            import pyarrow.parquet  # type: ignore[import-not-found]
        except ImportError as error:
            if to == "pandas":
                return _by_hand(made)
            raise ImportError(f"to={to!r}: expected pyarrow, found none; pip install pyarrow") from error
        table = pyarrow.parquet.read_table(made)
        if to == "pyarrow":
            return table
        import pandas  # type: ignore[import-untyped]
        import pyarrow

        # beside a missing one, whole numbers would be floats, which end at 2**53
        kinds = {pyarrow.int64(): pandas.Int64Dtype(), pyarrow.bool_(): pandas.BooleanDtype()}
        return table.to_pandas(types_mapper=kinds.get)


def _by_hand(path: str) -> Any:
    """A DataFrame without pyarrow, of the same types."""
    import pandas

    from ._parquet import columns_of

    # a column of texts without one is no column of objects in pandas 3
    text = "str" if int(pandas.__version__.split(".", 1)[0]) >= 3 else object
    kinds = {"boolean": "boolean", "integer": "Int64", "number": "float64", "text": text}
    columns = columns_of(File(path).read_bytes())
    return pandas.DataFrame({name: pandas.Series(values, dtype=kinds[kind]) for name, kind, values in columns})


class Simulated(str):
    """The base URL of a simulated server, as `endpoints` take it; it runs until `close`, the end of its `with`, or of Python."""

    _process: Optional[Process]

    @property
    def url(self) -> str:
        return str(self)

    def __enter__(self) -> Simulated:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        if self._process is not None:
            self._process.end(signals=1)
            self._process = None


def simulate(**options: Any) -> Simulated:
    """A simulated vLLM server on a free port, for tests: `with fw.simulate(seed=7) as server: … endpoints=[server]`.

    In a notebook without `with`: `server = fw.simulate(seed=7)`. Its answers fit the schema that is asked for, and are the same
    for the same request and seed; there is no model. Options are those of `fw simulate`, with _ for -: latency="5ms",
    faults="429=0.1", model="tiny" (docs/simulator.md).
    """
    usual = {} if {"preset", "model_config"} & options.keys() else {"latency": "1ms"}
    process = Process(["simulate", *flags({"port": 0, **usual, **options})])
    try:
        first = next(iter(process), b"")
        if not first:
            code = process.wait()
            raise FairwatchError(process.last_words(), KINDS.get(code, "bug"), tuple(process.said))
        server = Simulated(json.loads(first)["url"])
    except BaseException:
        process.end(signals=1)
        raise
    server._process = process
    return server
