"""docs/python.md: its blocks are run, one after the other, as a reader would."""

from __future__ import annotations

import pathlib
import re

import pytest

import fairwatch as fw

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md"


def test_the_page(server):
    text = PAGE.read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.S | re.M)
    assert len(blocks) > 5
    names: dict = {}
    skipped = []
    for block in blocks:
        line = text[: text.index(block)].count("\n") + 1
        needed = re.findall(r"^(?:import|from) (pandas|pydantic|pyarrow|polars)\b", block, re.M)
        try:
            for library in needed:
                if library == "pydantic" and not hasattr(__import__(library), "TypeAdapter"):
                    raise ImportError("expected pydantic 2")
                __import__(library)
        except ImportError:
            skipped.append(f"line {line}: {library} is not installed, or an older one")
            continue
        code = block.replace("http://gpu1:8005/v1", server).replace("http://gpu2:8005/v1", server)
        exec(compile("\n" * line + code, str(PAGE), "exec"), names)
    assert names["fw"] is fw
    if skipped:
        pytest.skip("; ".join(skipped))
