"""One simulated server for all tests; each test has a folder of its own as the current one."""

from __future__ import annotations

import os

import pytest

import fairwatch as fw

for name in ("FW_LEDGER", "FW_ENDPOINTS", "FW_AGENTS"):
    os.environ.pop(name, None)

REVIEWS = [
    {"stars": 5, "text": "It just works."},
    {"stars": 1, "text": "Broken after a day, and nobody answers."},
    {"stars": 3, "text": "Does what it should; the manual is thin."},
]


@pytest.fixture(scope="session")
def server():
    with fw.simulate(seed=7) as url:
        yield url


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def reviews():
    return [dict(row) for row in REVIEWS]
