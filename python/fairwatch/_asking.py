"""Rows through the program, and its answers as they come or in the place of their rows."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Union

from ._process import Run
from ._progress import Progress
from ._tables import Columns, Lines, Row, Source
from ._task import write_task
from ._values import Texts, are_maps
from .errors import AnswersFailed, Failure, FairwatchError

Endpoints = Union[str, Sequence[str], None]


class Answer(NamedTuple):
    """What came of a row."""

    #: of the row, from 0
    position: int
    #: as of the item: `fw explain` and `fw ledger show` take it
    id: Optional[str]
    #: the checked answer: of the last agent, or the decision; None where it failed
    value: Any
    #: how far `value` is from the model's own words (docs/integrity.md)
    rung: str
    failure: Optional[Failure]
    #: key of each agent that answered → its answer
    values: Dict[str, Any]
    rungs: Dict[str, str]


def answer_of(line: bytes) -> Optional[Answer]:
    """None for the line by which a run says that it ended early: why, it says itself."""
    item = json.loads(str(line, "utf-8"))  # of bytes it would guess the encoding, each time
    steps = item.get("steps") or []
    values: Dict[str, Any] = {step["agent"]: step.get("output") for step in steps}
    rungs: Dict[str, str] = {step["agent"]: step.get("rung", "unknown") for step in steps}
    last = item.get("decision") or (steps[-1] if steps else {})
    if item.get("decision"):
        values["decision"], rungs["decision"] = last.get("output"), last.get("rung", "unknown")
    failed = item.get("failure")
    failure = None
    if failed is not None:
        failure = Failure(str(failed.get("stage")), str(failed.get("code")), str(failed.get("message")))
    row = item.get("row")
    if not isinstance(row, int):
        if failure is not None and failure.code == "input-incomplete":
            return None
        raise FairwatchError(str(failure or "expected an item with its row"), "bug")
    value, rung = (None, "failed") if failure else (last.get("output"), last.get("rung", "unknown"))
    return Answer(row - 1, item.get("id"), value, rung, failure, values, rungs)


def connection(
    endpoints: Endpoints, model: Optional[str], ledger: Union[str, os.PathLike, None], api_key: Optional[str]
) -> tuple:
    """The flags that say whom to ask and where answers are kept, the environment, and the folder of the ledger."""
    flags: List[str] = []
    for url in [endpoints] if isinstance(endpoints, str) else (endpoints or []):
        flags += ["--endpoint", str(url)]
    if model is not None:
        flags += ["--model", model]
    folder = os.path.abspath(ledger if ledger is not None else os.environ.get("FW_LEDGER") or "ledger")
    return [*flags, "--ledger", folder], ({"FW_API_KEY": api_key} if api_key else {}), folder


class Asked:
    """One call: its files, its run, its progress. A context manager; iterate over it for answers as they come."""

    def __init__(
        self,
        rows: Iterable[Row],
        total: Optional[int],
        task: Mapping[str, Any],
        to: tuple,
        progress: bool,
        items: Union[str, os.PathLike, None],
    ) -> None:
        flags, env, ledger = to
        self._home = tempfile.TemporaryDirectory(prefix="fairwatch-")
        self._items = Path(items) if items is not None else None
        try:
            path = write_task(Path(self._home.name), **task)
        except BaseException:
            self._home.cleanup()
            raise
        function = task["prompt"] if callable(task["prompt"]) else None
        lines = iter(Lines(rows, task["id_column"], function))
        # a table without rows asks nothing, and the program would not know its columns
        first = next(lines, None)
        self._is_empty = first is None
        lines = itertools.chain([] if first is None else [first], lines)
        self._progress = Progress(total, progress)
        self._run = Run(["run", str(path), *flags], lines, env, is_live=total is None, tell=self._progress.say)
        self._ledger = ledger
        named = {"pool", "endpoint"} & task["options"].keys()
        self._has_endpoint = bool("--endpoint" in flags or named or os.environ.get("FW_ENDPOINTS") or self._is_empty)
        self.stop = self._run.stop

    def __enter__(self) -> Asked:
        if not self._has_endpoint:
            self._home.cleanup()
            found = 'expected an endpoint to ask, found none: endpoints=["http://HOST:PORT/v1"], or the environment variable FW_ENDPOINTS'
            raise FairwatchError(found)
        self._progress.say(f"fairwatch: answers are kept in {self._ledger}; the same call again asks only what is missing")
        self._run.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        try:
            self._run.__exit__(*error)
        finally:
            self._home.cleanup()

    def __iter__(self) -> Iterator[Answer]:
        if self._items is None:
            yield from self._answers(lambda _line: None)
            return
        # under its own name only once it is whole
        partial = self._items.with_name(f"{self._items.name}.partial")
        partial.parent.mkdir(parents=True, exist_ok=True)
        with open(partial, "wb") as kept:
            yield from self._answers(kept.write)
        partial.replace(self._items)

    def _answers(self, keep: Callable[[bytes], Any]) -> Iterator[Answer]:
        for line in () if self._is_empty else self._run:
            keep(line)
            answer = answer_of(line)
            if answer is None:
                continue
            self._progress.add(answer.rung, answer.failure.code if answer.failure else None)
            yield answer
        self._progress.end(self._run.account())


def collected(asked: Asked, size: int) -> List[Answer]:
    """The answers in the order of their rows. Raises FairwatchError where the run ended well without one for each."""
    answers: List[Optional[Answer]] = [None] * size
    with asked:
        for answer in asked:
            if answers[answer.position] is not None:
                raise FairwatchError(f"row {answer.position}: expected one answer, found a second one: its agents have several orderings", "data")
            answers[answer.position] = answer
    missing = [position for position, answer in enumerate(answers) if answer is None]
    if missing:
        raise FairwatchError(f"{len(missing):,} rows have no answer, the first is {missing[0]}; the same call again asks them", "data")
    return answers  # type: ignore[return-value]


def named_columns(answers: Sequence[Answer], keys: Sequence[str], known: Mapping[str, Sequence[str]]) -> Columns:
    """A column for each value: KEY.PROPERTY of an object, else KEY; then KEY_rung. A failed row has no values."""
    made: Columns = {}
    for key in keys:
        values = [None if answer.failure else answer.values.get(key) for answer in answers]
        made.update(_columns_of(key, values, known.get(key, ())))
        made[f"{key}_rung"] = ["failed" if answer.failure else answer.rungs.get(key) for answer in answers]
    return made


def _columns_of(key: str, values: Sequence[Any], properties: Sequence[str]) -> Columns:
    names = dict.fromkeys(properties)
    present = [value for value in values if value is not None]
    is_object = all(isinstance(value, dict) for value in present)
    if not is_object or (not names and (not present or are_maps(present))):
        return {key: list(values)}
    for value in values:
        names.update(dict.fromkeys(value or ()))
    return {f"{key}.{name}": [None if value is None else value.get(name) for value in values] for name in names}


def finished(source: Source, answers: Sequence[Answer], columns: Columns, on_failure: str) -> Any:
    """The table with these columns; raises AnswersFailed where that is asked for and a row failed."""
    expect_new(source.columns, columns)
    result = source.with_columns(columns)
    failures = [(answer.position, answer.failure) for answer in answers if answer.failure]
    if failures and on_failure == "raise":
        raise AnswersFailed(result, failures)
    return result


def ends(prefix: str, answers: Sequence[Answer]) -> Columns:
    """The columns that every table gets: why a row failed, and its id."""
    return {
        f"{prefix}failure": Texts(str(answer.failure) if answer.failure else None for answer in answers),
        f"{prefix}id": Texts(answer.id for answer in answers),
    }


def expect_new(columns: Optional[Sequence[str]], made: Iterable[str]) -> None:
    """Raises ValueError where a column of the answers is one of the table already."""
    taken = sorted(set(made).intersection(columns or ()))
    if taken:
        words = ", ".join(taken[:5])
        raise ValueError(f"table: expected no column that an answer needs, found {words}; drop it, or give another name=")


async def awaited(work: Callable[[], Any], stop: Callable[[], None]) -> Any:
    """`work` in a thread; where the task is cancelled, it is stopped in order, and waited for."""
    running = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop()
        try:
            await running
        except FairwatchError:
            pass
        raise
