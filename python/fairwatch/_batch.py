"""Requests as they are, through `fw batch`: to any POST path of the servers, unchanged."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Iterable, List, Optional, Union

from ._asking import Endpoints, awaited, connection
from ._process import Run
from ._progress import Progress
from ._tables import json_line
from ._task import flags
from .errors import AnswersFailed, Failure

Path = Union[str, "os.PathLike[str]"]
Request = Dict[str, Any]


def batch(
    requests: Iterable[Request],
    *,
    endpoints: Endpoints = None,
    model: Optional[str] = None,
    api_key: Optional[str] = None,
    ledger: Optional[Path] = None,
    on_failure: str = "column",
    progress: bool = True,
    **options: Any,
) -> List[Dict[str, Any]]:
    """Sends the requests of an OpenAI batch, and returns a result for each, in their order (docs/batch.md).

    A request is {"custom_id", "method", "url", "body"}, a result {"id", "custom_id", "response", "error"}. `error` says why
    a request failed; with on_failure="raise" that raises AnswersFailed after the last one. Other options are those of
    `fw batch`, with _ for -: once=True, in_flight=64.
    """
    call = _Batch(requests, locals())
    return call.results()


async def abatch(requests: Iterable[Request], **given: Any) -> List[Dict[str, Any]]:
    """`batch` to be awaited."""
    whole = {**(batch.__kwdefaults__ or {}), **given}
    whole["options"] = {name: value for name, value in given.items() if name not in (batch.__kwdefaults__ or {})}
    call = _Batch(requests, whole)
    return await awaited(call.results, call.run.stop)


class _Batch:
    def __init__(self, requests: Iterable[Request], given: Dict[str, Any]) -> None:
        if given["on_failure"] not in ("column", "raise"):
            raise ValueError(f"on_failure: expected 'column' or 'raise', found {given['on_failure']!r}")
        self._raises = given["on_failure"] == "raise"
        to, env, ledger = connection(given["endpoints"], given["model"], given["ledger"], given["api_key"])
        lines = (json_line(request, at) for at, request in enumerate(requests))
        total = len(requests) if isinstance(requests, (list, tuple)) else None
        self._ledger = ledger
        self._progress = Progress(total, given["progress"])
        self.run = Run(["batch", *to, *flags(given["options"])], lines, env, tell=self._progress.say)

    def results(self) -> List[Dict[str, Any]]:
        found: List[Dict[str, Any]] = []
        failures = []
        self._progress.say(f"fairwatch: answers are kept in {self._ledger}; the same call again asks only what is missing")
        with self.run as lines:
            for line in lines:
                result = json.loads(line)
                error = result.get("error")
                if error:
                    failure = Failure("batch", str(error.get("code")), str(error.get("message")))
                    failures.append((len(found), failure))
                self._progress.add("answered", str(error.get("code")) if error else None)
                found.append(result)
        self._progress.end(self.run.account())
        if failures and self._raises:
            raise AnswersFailed(found, failures)
        return found
