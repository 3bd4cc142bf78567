"""`fw` and `python -m fairwatch`: the program itself, with its arguments."""

from __future__ import annotations

import os
import subprocess
import sys

from ._program import command
from .errors import FairwatchError


def main() -> int:
    try:
        argv = command(sys.argv[1:])
    except FairwatchError as error:
        print(f"fw: {error}", file=sys.stderr)
        return 69
    if os.name == "posix":
        os.execv(argv[0], argv)
    return subprocess.call(argv)


if __name__ == "__main__":
    sys.exit(main())
