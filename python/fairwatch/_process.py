"""One run of the program: lines in, lines out, over pipes, and how it ends.

It is in a session of its own, so that Ctrl-C in a terminal reaches Python alone, which then stops it in order.
"""

from __future__ import annotations

import collections
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from typing import Callable, Dict, Iterable, Iterator, Optional, Sequence

from ._program import command
from .errors import KINDS, FairwatchError, Stopped

#: the name that a message begins with; the account, after which all is closing words; what Python has words of its own for
LABEL = re.compile(r"^[\w. -]{1,40}: ")
ACCOUNT = re.compile(r"^[\w. -]{1,40}: in [\d,]+ = ")
OWN_PROGRESS = re.compile(r"^[\w. -]{1,40}: (?:asking |[\d,.]+ % of calls|SIG[A-Z]+: |stopped by )")

log = logging.getLogger("fairwatch")

#: bytes that are written at once
BLOCK = 64 * 1024
#: messages of the program that are kept
KEPT = 200
#: of runs that were stopped; 1 says that items failed, which is no error here
STOPPED = {129, 130, 143}
FAILED = 1
USAGE = 64
#: seconds that it has to end at once, before it is killed
LAST_WORDS = 10.0
#: seconds between two looks whether a run that holds the ledger has ended
LOOK = 0.2
#: seconds that a run whose Python is gone may still need: its grace, and its end
GRACE = 40.0


#: the line by which a run says that it ended early
ENDED = b'{"id":null,"failure":'
#: process of each run of this Python → the thread that reads it
RUNNING: Dict[int, int] = {}


class Feed:
    """Lines for the program. Until it has answered, they are kept: it may have to be started again."""

    def __init__(self, lines: Iterable[bytes], is_live: bool) -> None:
        self._lines = iter(lines)
        #: they come from something that may wait: each is sent at once
        self.is_live = is_live
        self._kept: Optional[list[bytes]] = []
        #: what `lines` raised
        self.error: Optional[BaseException] = None

    def __iter__(self) -> Iterator[bytes]:
        yield from list(self._kept or [])
        for line in self._lines:
            if self._kept is not None:
                self._kept.append(line)
            yield line

    def forget(self) -> None:
        self._kept = None


class Process:
    """The program with `arguments`; iterate over its lines, then `wait`."""

    def __init__(
        self,
        arguments: Sequence[str],
        feed: Optional[Feed] = None,
        env: Optional[dict] = None,
        tell: Callable[[str], None] = lambda _message: None,
    ) -> None:
        self._tell = tell
        watched, held = os.pipe() if os.name == "posix" else (None, None)
        self._held = held
        try:
            self._process = subprocess.Popen(
                command(arguments, watched),
                stdin=subprocess.DEVNULL if feed is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=BLOCK,
                env={**os.environ, **(env or {})},
                **({"pass_fds": (watched,), "start_new_session": True} if watched is not None else {}),
            )
        except BaseException:
            self._let_go()
            raise
        finally:
            if watched is not None:
                os.close(watched)
        self.pid = self._process.pid
        self._feed = feed
        self.said: collections.deque = collections.deque(maxlen=KEPT)
        self._listening = self._start(self._listen)
        self._writing = self._start(self._write) if feed is not None else None

    @staticmethod
    def _start(work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=work, daemon=True, name="fairwatch")
        thread.start()
        return thread

    def _listen(self) -> None:
        message = ""  # held back until the next one: the last may be why it ends, which is raised
        is_closing = False
        for line in self._process.stderr:  # type: ignore[union-attr]
            text = line.decode("utf-8", "replace").rstrip("\n")
            self.said.append(text)
            log.info("%s", text)
            if text.startswith(" "):
                message += f"\n{text}"
                continue
            if message and not is_closing and not OWN_PROGRESS.search(message):
                self._tell(f"fairwatch: {LABEL.sub('', message)}")
            is_closing = is_closing or ACCOUNT.search(text) is not None
            message = text

    def _write(self) -> None:
        stdin = self._process.stdin
        try:
            for line in self._feed:  # type: ignore[union-attr]
                stdin.write(line)  # type: ignore[union-attr]
                if self._feed.is_live:  # type: ignore[union-attr]
                    stdin.flush()  # type: ignore[union-attr]
        except BrokenPipeError:
            pass  # it has ended, and says why
        except BaseException as error:  # of the caller's own rows: raised where the answers are read
            self._feed.error = error  # type: ignore[union-attr]
            self.signal()
        finally:
            try:
                stdin.close()  # type: ignore[union-attr]
            except OSError:
                pass

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._process.stdout)  # type: ignore[arg-type]

    def signal(self) -> None:
        """Once: nothing new is asked, and calls in flight may finish. Twice: it ends at once."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT if os.name == "posix" else signal.SIGTERM)

    def end(self, signals: int = 2) -> None:
        """Ends it, if it has not ended: after two signals without what is in flight. It has LAST_WORDS for that."""
        if self._process.poll() is None:
            timer = threading.Timer(LAST_WORDS, self._process.kill)
            timer.start()
            for _time in range(signals):
                self.signal()
            for _line in self:
                pass
            self._process.wait()
            timer.cancel()
        self.wait()

    def drain(self) -> None:
        """Stops it in order, and waits; another interruption meanwhile ends it at once."""
        try:
            self.signal()
            for _line in self:
                pass
        except KeyboardInterrupt:
            self.end()
        self.wait()

    def wait(self) -> int:
        code = self._process.wait()
        self._listening.join()
        self._process.stdout.close()  # type: ignore[union-attr]
        self._process.stderr.close()  # type: ignore[union-attr]
        self._let_go()
        return code

    def let_feed_go(self) -> None:
        """Waits until its rows are read by nobody: after its end, the next line that is written tells."""
        if self._writing is not None:
            self._writing.join()

    def _let_go(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def last_words(self) -> str:
        """Its last message, without the name that it begins with."""
        words: list[str] = []
        for text in reversed(self.said):
            words.insert(0, text)
            if not text.startswith(" "):
                break
        return LABEL.sub("", "\n".join(words)) or "no message"

    def account(self) -> str:
        """Its calls and tokens, as it counts them at its end; empty where it has not come to that."""
        for text in reversed(self.said):
            found = re.search(r" · ([\d,]+ calls?\b.*?)(?: · [\d.,]+ s)?$", text) if ACCOUNT.search(text) else None
            if found:
                return found[1]
        return ""

    def holder(self) -> Optional[int]:
        """The process that holds the ledger, where that is why this one has ended."""
        for text in self.said:
            found = re.search(r"the ledger is in use by process (\d{1,10}) on ", text)
            if found:
                return int(found[1])
        return None


class Run:
    """Lines through the program, as often as it has to be started: a context manager, and an iterator of lines."""

    def __init__(
        self,
        arguments: Sequence[str],
        lines: Iterable[bytes],
        env: Optional[dict] = None,
        is_live: bool = False,
        tell: Callable[[str], None] = lambda _message: None,
    ) -> None:
        self._tell = tell
        self._arguments = list(arguments)
        self._feed = Feed(lines, is_live)
        self._env = env
        self._process: Optional[Process] = None
        self._is_stopped = False
        self.code: Optional[int] = None

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: object, _error: object, _trace: object) -> None:
        if self._process is None:
            return
        if kind is KeyboardInterrupt:
            print(file=sys.stderr)  # below the line of the progress
            print("fairwatch: stopping; calls in flight may finish (again: at once)", file=sys.stderr)
            self._process.drain()
            print("fairwatch: stopped; the same call again asks only what is missing", file=sys.stderr)
        else:
            self._process.end()

    def stop(self) -> None:
        """From another thread: in order, and a second time at once."""
        self._is_stopped = True
        if self._process is not None:
            self._process.signal()

    def __iter__(self) -> Iterator[bytes]:
        deadline: Optional[float] = None
        while True:
            process = self._process = Process(self._arguments, self._feed, self._env, self._tell)
            RUNNING[process.pid] = threading.get_ident()
            if self._is_stopped:
                process.signal()
            last = b""
            try:
                for line in process:
                    if line.startswith(ENDED):  # it may be started again: nothing has been answered yet
                        last = line
                        continue
                    self._feed.forget()
                    yield line
                self.code = process.wait()
            finally:
                RUNNING.pop(process.pid, None)
            if self._feed.error is not None:
                raise self._feed.error
            holder = process.holder() if self.code == USAGE else None
            if holder is None:
                break
            deadline = deadline or time.monotonic() + GRACE
            if not _outlived(holder, deadline, lambda: self._is_stopped):
                break
            process.let_feed_go()
        if last:
            yield last
        self._check(process)

    def account(self) -> str:
        return self._process.account() if self._process else ""

    def _check(self, process: Process) -> None:
        code = self.code or 0
        if code in (0, FAILED):
            return
        said = tuple(process.said)
        if code in STOPPED or code < 0:
            raise Stopped(f"stopped: {process.last_words()}", "stopped", said)
        kind = KINDS.get(code, "bug")
        raise FairwatchError(process.last_words(), kind, said)


def _outlived(pid: int, deadline: float, is_stopped: Callable[[], bool]) -> bool:
    """Waits for the run that has the ledger: one left by a Python that died, or one of another thread here. False where that
    has no end: it is this thread's own, or somebody else's, and does not end in time."""
    owner = RUNNING.get(pid)
    if owner == threading.get_ident():
        return False
    whose = "process {pid} is still at the same work" if owner is None else "another call is at this ledger (ledger= names one of its own)"
    print(f"fairwatch: {whose.format(pid=pid)}; waiting for its end", file=sys.stderr)
    while (owner is not None or time.monotonic() < deadline) and not is_stopped():
        if not _is_running(pid):
            return True
        time.sleep(LOOK)
    return False


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
