"""What a user calls."""

from __future__ import annotations

import difflib
import os
from typing import Any, AsyncIterator, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, TypeVar, Union

from ._asking import (
    Answer,
    Asked,
    Endpoints,
    awaited,
    collected,
    connection,
    ends,
    expect_new,
    finished,
    named_columns,
)
from ._tables import Row, Source, source_of
from ._task import Agent, Prompt, expect_prompt, one_agent, schema_of

T = TypeVar("T")
Path = Union[str, "os.PathLike[str]"]


def map(
    table: T,
    *,
    prompt: Prompt,
    schema: Any = None,
    choice: Optional[Sequence[str]] = None,
    regex: Optional[str] = None,
    system: Optional[str] = None,
    name: str = "answer",
    sampling: Optional[Mapping[str, Any]] = None,
    endpoints: Endpoints = None,
    model: Optional[str] = None,
    api_key: Optional[str] = None,
    ledger: Optional[Path] = None,
    id: Optional[str] = None,
    items: Optional[Path] = None,
    on_failure: str = "column",
    progress: bool = True,
    **options: Any,
) -> T:
    """Asks about every row of a table, and returns the table with the answers in its columns.

    `table`: a DataFrame of pandas or polars, a pyarrow.Table or a list of dicts; the same comes back, in the same order.
    `prompt`: a Liquid template with the columns as variables, such as "Classify: {{ text }}", or a function of a row.
    `schema`: a model of pydantic or a JSON Schema; else `choice` or `regex`; without any, an answer is text.
    `system`: the system message. `sampling`: such as {"temperature": 0.7, "max_tokens": 200, "top_p": 0.9}; else temperature 0
    and 1024 tokens at most. An answer that is cut off there fails.
    `endpoints`: base URLs; else FW_ENDPOINTS. `api_key`: else FW_API_KEY.
    `ledger`: the folder where answers are kept; else FW_LEDGER, else ledger/ in the current folder. The same call again
    asks only what is missing there.
    `id`: the column that names a row; else `id`, else a hash of the row.
    `items`: a file for the items, as lines, for `fw view`, `fw report` and `fw.items`.
    `on_failure`: "column", or "raise" AnswersFailed after the last row.
    Other options are those of `fw chain`, with _ for -: in_flight=64, attempts=2, timeout="5m", seed=1.

    Columns: NAME.PROPERTY for each property of an object, else NAME; NAME_rung, NAME_failure, NAME_id.
    Raises FairwatchError where the run does not come to its end, with what was answered on record.
    """
    call = _Map(table, locals())
    return call.table(collected(call.asked(), call.size))


async def amap(table: T, **given: Any) -> T:
    """`map` to be awaited. Where its task is cancelled, calls in flight may finish, and are on record."""
    call = _Map(table, _named(map, given))
    asked = call.asked()
    return await awaited(lambda: call.table(collected(asked, call.size)), asked.stop)


def chain(
    table: T,
    *,
    agents: Union[Path, Sequence[Agent]],
    prompt: Optional[Prompt] = None,
    decision: bool = False,
    endpoints: Endpoints = None,
    model: Optional[str] = None,
    api_key: Optional[str] = None,
    ledger: Optional[Path] = None,
    id: Optional[str] = None,
    items: Optional[Path] = None,
    on_failure: str = "column",
    progress: bool = True,
    **options: Any,
) -> T:
    """Asks several agents about every row, one after the other: each reads what those before it have answered.

    `agents`: a folder of agent files (docs/agents.md), or a list of dicts with their keys, whose schema may be a model of
    pydantic: [{"key": "triage", "persona": "…", "schema": Triage}, …], asked in this order.
    `prompt`: as for `map`; without it, the column `prompt`. `decision`: the agent with the role synthesis decides at the end.
    The rest is that of `map`. Columns: those of `map` for each agent, by its key; `failure` and `id` of the row.
    """
    call = _Chain(table, locals())
    return call.table(collected(call.asked(), call.size))


async def achain(table: T, **given: Any) -> T:
    """`chain` to be awaited."""
    call = _Chain(table, _named(chain, given))
    asked = call.asked()
    return await awaited(lambda: call.table(collected(asked, call.size)), asked.stop)


def stream(
    rows: Any,
    *,
    prompt: Optional[Prompt] = None,
    schema: Any = None,
    choice: Optional[Sequence[str]] = None,
    regex: Optional[str] = None,
    system: Optional[str] = None,
    name: str = "answer",
    sampling: Optional[Mapping[str, Any]] = None,
    agents: Union[Path, Sequence[Agent], None] = None,
    decision: bool = False,
    endpoints: Endpoints = None,
    model: Optional[str] = None,
    api_key: Optional[str] = None,
    ledger: Optional[Path] = None,
    id: Optional[str] = None,
    items: Optional[Path] = None,
    progress: bool = False,
    **options: Any,
) -> Iterator[Answer]:
    """Answers as they come, in any order: `answer.position` is the row's, from 0.

    `rows`: a table, or any iterable of dicts, which is read in another thread as fast as answers need it. With `agents`
    it asks as `chain`, else as `map`. Leaving the loop stops the run at once.
    """
    kind = _Chain if agents is not None else _Map
    return _as_they_come(kind(rows, locals()).asked())


async def astream(rows: Any, **given: Any) -> AsyncIterator[Answer]:
    """`stream` for `async for`."""
    whole = _named(stream, given)
    kind = _Chain if whole["agents"] is not None else _Map
    asked = kind(rows, whole).asked()
    with asked:
        answers = iter(asked)
        while True:
            answer = await awaited(lambda: next(answers, None), asked.stop)
            if answer is None:
                return
            yield answer


def _as_they_come(asked: Asked) -> Iterator[Answer]:
    with asked:
        yield from asked


class _Call:
    """A call of `map` or `chain`, with its arguments checked before anything is started."""

    label = "map"

    def __init__(self, table: Any, given: Mapping[str, Any]) -> None:
        self.given = given
        if given.get("on_failure", "column") not in ("column", "raise"):
            raise ValueError(f"on_failure: expected 'column' or 'raise', found {given['on_failure']!r}")
        _expect_spelt(given)
        self.source: Optional[Source] = None
        try:
            self.source = source_of(table)
        except TypeError:
            # as they come, anything will do that can be gone through
            if "rows" not in given or not isinstance(table, Iterable):
                raise
        self.rows = table
        columns = self.source.columns if self.source else None
        name = given["id"] or ("id" if "id" in (columns or ()) else None)
        if given["id"] is not None and columns is not None and name not in columns:
            raise ValueError(f"id: expected a column of the table, found {name!r}; it has {', '.join(columns[:20])}")
        self.id_column = name
        self.to = connection(given["endpoints"], given["model"], given["ledger"], given["api_key"])
        if given["prompt"] is not None:
            expect_prompt(given["prompt"], columns)

    @property
    def size(self) -> int:
        return self.source.size or 0 if self.source else 0

    def agents(self) -> Any:
        return self.given["agents"]

    def asked(self) -> Asked:
        task = {
            "label": self.label,
            "prompt": self.given["prompt"],
            "agents": self.agents(),
            "decision": self.given.get("decision", False),
            "id_column": self.id_column,
            "options": self.given["options"],
        }
        rows = self.source.rows() if self.source else self.rows
        total = self.source.size if self.source else None
        return Asked(rows, total, task, self.to, self.given["progress"], self.given["items"])


class _Map(_Call):
    def __init__(self, table: Any, given: Mapping[str, Any]) -> None:
        super().__init__(table, given)
        if given["prompt"] is None:
            raise TypeError("expected a prompt, found none")
        self.name = given["name"]
        self.schema = schema_of(given["schema"])
        columns = (self.source.columns if self.source else None) or ()
        if "rows" not in given:
            own = {self.name, *(f"{self.name}_{end}" for end in ("rung", "failure", "id"))}
            expect_new(columns, [*own, *(each for each in columns if each.startswith(f"{self.name}."))])

    def agents(self) -> List[Dict[str, Any]]:
        given = self.given
        agent = one_agent(self.name, given["system"], self.schema, given["choice"], given["regex"], given["sampling"])
        return [agent]

    def table(self, answers: Sequence[Answer]) -> Any:
        schema = self.schema if isinstance(self.schema, dict) else {}
        known = {self.name: list(schema.get("properties", ()))}
        columns = {**named_columns(answers, [self.name], known), **ends(f"{self.name}_", answers)}
        return finished(self.source, answers, columns, self.given["on_failure"])  # type: ignore[arg-type]


class _Chain(_Call):
    label = "chain"

    def table(self, answers: Sequence[Answer]) -> Any:
        keys = dict.fromkeys(key for answer in answers for key in answer.values)
        columns = {**named_columns(answers, list(keys), {}), **ends("", answers)}
        return finished(self.source, answers, columns, self.given["on_failure"])  # type: ignore[arg-type]


def _expect_spelt(given: Mapping[str, Any]) -> None:
    """Raises TypeError for an option that is nearly an argument of ours: the program knows its own alone, and lists them."""
    own = [name for name in given if name not in ("options", "table", "rows")]
    for name in given["options"]:
        near = difflib.get_close_matches(name, own, 1, 0.8) if name not in ("endpoint",) else []
        if near:
            raise TypeError(f"{name}: expected an argument or an option of fw chain, found neither; did you mean {near[0]}=?")


def _named(function: Any, given: Dict[str, Any]) -> Dict[str, Any]:
    """The arguments of `function` with its defaults; what it has no name for is in `options`."""
    whole = dict(function.__kwdefaults__ or {})
    names = function.__code__.co_varnames[: function.__code__.co_argcount + function.__code__.co_kwonlyargcount]
    options = {name: value for name, value in given.items() if name not in names}
    whole.update({name: value for name, value in given.items() if name in names})
    missing = [name for name in names[1:] if name not in whole]
    if missing:
        raise TypeError(f"expected the argument {missing[0]}, found none")
    first = {names[0]: None} if names[0] == "rows" else {}
    return {**first, **whole, "options": options}
