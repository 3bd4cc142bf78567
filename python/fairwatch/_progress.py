"""What a person sees of a run: one line that changes, in a terminal or a notebook, and the last one everywhere."""

from __future__ import annotations

import collections
import sys
import time
from typing import Any, Optional

#: seconds between two changes
EVERY = 0.2


class Progress:
    """`total` is None where only the end of the rows tells."""

    def __init__(self, total: Optional[int], is_shown: bool) -> None:
        self._total = total
        self._begin = time.monotonic()
        self._next = self._begin + EVERY
        self._done = 0
        self._rungs: collections.Counter = collections.Counter()
        self._codes: collections.Counter = collections.Counter()
        self._line = _line_for(sys.stderr) if is_shown else None

    def add(self, rung: str, code: Optional[str]) -> None:
        self._done += 1
        if code is None:
            self._rungs[rung] += 1
        else:
            self._codes[code] += 1
        now = time.monotonic()
        if self._line is not None and now >= self._next:
            self._next = now + EVERY
            self._line.change(self._words(now))

    def say(self, text: str) -> None:
        if self._line is not None:
            self._line.keep(text)

    def end(self, account: str = "") -> None:
        """`account`: calls and tokens, as the program counts them."""
        if self._line is not None:
            self._line.end(" · ".join([self._words(None), *([account] if account else [])]))

    def _words(self, now: Optional[float]) -> str:
        failed = sum(self._codes.values())
        of = "" if self._total is None else f" of {self._total:,}"
        words = [f"fairwatch: {self._done:,}{of} rows"]
        words += [f"{count:,} {rung}" for rung, count in sorted(self._rungs.items())]
        if failed:
            codes = ", ".join(f"{count:,} {code}" for code, count in self._codes.most_common(3))
            words.append(f"{failed:,} failed ({codes})")
        if now is not None and self._done > 0:
            rate = self._done / (now - self._begin)
            left = "" if self._total is None else f", {_time((self._total - self._done) / rate)} left"
            words.append(f"{rate:,.0f}/s{left}")
        return " · ".join(words)


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _line_for(stream: Any) -> Any:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if type(shell).__name__ == "ZMQInteractiveShell":
        return _Cell()
    return _Terminal(stream) if stream.isatty() else _Log(stream)


class _Terminal:
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def change(self, text: str) -> None:
        self._stream.write(f"\r\x1b[K{text}")
        self._stream.flush()

    def keep(self, text: str) -> None:
        self.change(f"{text}\n")

    end = keep


class _Log:
    """No line that changes: what is kept, and the last."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def change(self, text: str) -> None:
        pass

    def keep(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    end = keep


class _Cell:
    """In a notebook: a text below the cell, replaced in its place."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._kept: list = []

    def change(self, text: str) -> None:
        from IPython.display import display  # type: ignore[import-not-found]

        shown = {"text/plain": "\n".join([*self._kept, text])}
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def keep(self, text: str) -> None:
        self._kept.append(text)
        self.change("")

    def end(self, text: str) -> None:
        self.change(text)
