"""What is raised."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

#: exit codes of the program → what they are called
KINDS = {64: "usage", 65: "data", 69: "unavailable", 70: "bug", 74: "io"}


class Failure(NamedTuple):
    """Why a row has no answer. `code` is one of those in docs/troubleshooting.md."""

    stage: str
    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class FairwatchError(Exception):
    """The run did not come to its end. What was answered until then is on record: the same call asks for the rest.

    `kind`: usage, data, unavailable, io or bug, as of the program; `said`: its last messages.
    """

    def __init__(self, message: str, kind: str = "usage", said: tuple = ()) -> None:
        super().__init__(message)
        self.kind = kind
        self.said = said


class Stopped(FairwatchError):
    """The run was stopped by a signal or a cancelled task, in order: the same call goes on where it was."""


class AnswersFailed(FairwatchError):
    """Raised by `on_failure="raise"` after the whole table was asked.

    `result` is the table that would have been returned; `failures` has (position of the row, Failure) for each.
    """

    def __init__(self, result: Any, failures: list, first: Optional[str] = None) -> None:
        position, failure = failures[0]
        super().__init__(
            f"{len(failures):,} of the answers failed; the first, of row {position}: {failure}", "failed"
        )
        self.result = result
        self.failures = failures
