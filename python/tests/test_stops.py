"""Killed, interrupted and called again: what was answered is not asked again."""

from __future__ import annotations

import collections
import os
import random
import signal
import socket
import subprocess
import sys
import urllib.parse

import pytest

import fairwatch as fw

ROWS = 120
CALL = """
import os, signal, sys
import fairwatch as fw
signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs behind a shell's & ignores it
def rows():
    for at in range({rows}):
        if at == {pause}:
            os.read(0, 1)
        yield {{"text": f"Number {{at}}."}}
try:
    for answer in fw.stream(rows(), prompt="Say it: {{{{ text }}}}", endpoints=sys.argv[1], in_flight=8, ledger="ledger"):
        print(answer.position, flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def begun(server, pause=ROWS):
    """A run that is asked to go on before it comes to the row `pause`."""
    script = CALL.format(rows=ROWS, pause=pause)
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", script, server], stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def answers():
    return collections.Counter(call["item"] for call in fw.ledger() if call["outcome"] == "answer")


def test_kill_9_in_three_places():
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    places = sorted(random.Random(seed).sample(range(1, ROWS), 3))
    with fw.simulate(latency="10ms") as server:
        for place in places:
            run = begun(server)
            for _line, _each in zip(run.stdout, range(place)):
                pass
            run.send_signal(signal.SIGKILL)
            run.communicate()
        last = begun(server)
        said, errors = last.communicate(timeout=120)
    assert len(said.split()) == ROWS, errors
    found = answers()
    assert len(found) == ROWS
    assert set(found.values()) == {1}, f"places {places}: asked again what was answered"


def test_ctrl_c_stops_in_order():
    with fw.simulate(latency="10ms") as server:
        run = begun(server, pause=20)
        run.stdout.readline()
        run.send_signal(signal.SIGINT)
        said, errors = run.communicate(timeout=120)
        assert "interrupted" in said and run.returncode == 0
        before = answers()
        assert 0 < len(before) <= 20
        again = begun(server)
        said, errors = again.communicate(timeout=120)
    assert len(said.split()) == ROWS, errors
    assert set(answers().values()) == {1}


def test_a_simulated_server_ends_with_its_python():
    script = "import fairwatch as fw\nwith fw.simulate() as url:\n print(url, flush=True)\n input()"
    run = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    url = urllib.parse.urlsplit(run.stdout.readline())
    with socket.create_connection((url.hostname, url.port)) as open_connection:
        run.send_signal(signal.SIGKILL)
        run.communicate()
        assert open_connection.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((url.hostname, url.port))


def test_nothing_is_left_behind(server, tmp_path_factory, monkeypatch):
    place = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr("tempfile.tempdir", str(place))
    fw.map([{"text": "a"}], prompt="{{ text }}", endpoints=server, progress=False)
    assert os.listdir(place) == []
