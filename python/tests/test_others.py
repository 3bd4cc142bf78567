"""`chain`, `batch`, and the forms that are awaited."""

from __future__ import annotations

import asyncio
import threading

import pytest

import fairwatch as fw

MOOD = {"type": "object", "required": ["mood"], "properties": {"mood": {"enum": ["good", "bad"]}}}
DESK = [
    {"key": "triage", "persona": "You sort reviews.", "schema": MOOD},
    {"key": "reply", "persona": "You answer customers.", "sampling": {"max_tokens": 50}},
]


def request(at, **more):
    body = {"model": "simulated-3b", "messages": [{"role": "user", "content": f"Say {at}."}]}
    return {"custom_id": f"r-{at}", "method": "POST", "url": "/v1/chat/completions", "body": body, **more}


def test_agents_in_a_chain(server, reviews):
    result = fw.chain(reviews, agents=DESK, prompt="{{ text }}", endpoints=server, progress=False)
    assert list(result[0])[2:] == ["triage.mood", "triage_rung", "reply", "reply_rung", "failure", "id"]
    assert all(row["triage.mood"] in ("good", "bad") and row["reply"] for row in result)
    shown = [call["input"] for call in fw.ledger() if call["agent"] == "reply"]
    assert all("Triage" in str(messages) for messages in shown)


def test_a_folder_of_agents_and_a_decision(server, reviews):
    import pathlib

    folder = pathlib.Path("desk")
    folder.mkdir()
    for key, role in (("triage", "agent"), ("head", "synthesis")):
        text = f"{{key: {key}, short: {key}, display: {key}, role: {role}, sampling: {{temperature: 0, max_tokens: 50}}, schema: {{type: object}}}}"
        (folder / f"{key}.yaml").write_text(text)
    rows = [{"prompt": row["text"]} for row in reviews]
    asked = list(fw.stream(rows, agents=folder, decision=True, endpoints=server))
    assert all(answer.value == answer.values["decision"] and "triage" in answer.values for answer in asked)


def test_a_batch_comes_back_in_order(server):
    requests = [request(1), request(2, url="/v1/nothing"), request(3)]
    results = fw.batch(requests, endpoints=server, progress=False)
    assert [result["custom_id"] for result in results] == ["r-1", "r-2", "r-3"]
    assert [result["error"] is None for result in results] == [True, False, True]
    assert results[0]["response"]["body"]["choices"][0]["message"]["content"]
    with pytest.raises(fw.AnswersFailed) as raised:
        fw.batch(requests, endpoints=server, progress=False, on_failure="raise")
    assert [at for at, _failure in raised.value.failures] == [1]
    with pytest.raises(fw.FairwatchError, match="custom_id"):
        fw.batch([{"body": {}}], endpoints=server, progress=False)


def test_what_is_awaited_is_the_same(server, reviews):
    ask = {"prompt": "{{ text }}", "endpoints": server, "progress": False}

    async def all_of_them():
        mapped, chained, batched = await asyncio.gather(
            fw.amap(reviews, **ask, ledger="a"),
            fw.achain(reviews, agents=DESK, **ask, ledger="b"),
            fw.abatch([request(1)], endpoints=server, progress=False, ledger="c"),
        )
        streamed = [answer async for answer in fw.astream(reviews, **ask, ledger="a")]
        return mapped, chained, batched, streamed

    mapped, chained, batched, streamed = asyncio.run(all_of_them())
    assert mapped == fw.map(reviews, **ask, ledger="a")
    assert chained == fw.chain(reviews, agents=DESK, **ask, ledger="b")
    assert batched == fw.batch([request(1)], endpoints=server, progress=False, ledger="c")
    assert [answer.value for answer in sorted(streamed)] == [row["answer"] for row in mapped]
    with pytest.raises(TypeError, match="expected the argument prompt"):
        asyncio.run(fw.amap(reviews))
    with pytest.raises(TypeError, match="expected the argument agents"):
        asyncio.run(fw.achain(reviews))


def test_a_task_that_is_cancelled_stops_its_run():
    async def cancelled(server):
        loop, begun = asyncio.get_running_loop(), asyncio.Event()

        def prompt(row):
            loop.call_soon_threadsafe(begun.set)
            return row["text"]

        rows = [{"text": str(at)} for at in range(100)]
        # a call takes a minute, so it is the cancelling that ends this
        task = asyncio.ensure_future(fw.amap(rows, prompt=prompt, endpoints=server, grace="50ms", progress=False))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with fw.simulate(latency="60s") as server:
        asyncio.run(cancelled(server))


def test_a_simulated_server_that_cannot_start_says_why():
    with pytest.raises(fw.FairwatchError, match="latncy"):
        with fw.simulate(latncy="1ms"):
            pass


def test_two_at_once_on_one_ledger_go_one_after_the_other(server, reviews):
    async def both():
        return await asyncio.gather(*(fw.amap(reviews, prompt=f"{each}: {{{{ text }}}}", endpoints=server) for each in "AB"))

    for rows in asyncio.run(both()):
        assert [row["answer_failure"] for row in rows] == [None] * len(reviews)


def test_a_call_inside_a_loop_over_the_same_ledger_is_refused_at_once(server, reviews):
    def rows():
        yield reviews[0]
        held.wait()

    held = threading.Event()
    for _answer in fw.stream(rows(), prompt="{{ text }}", endpoints=server):
        with pytest.raises(fw.FairwatchError, match="the ledger is in use by process"):
            fw.map(reviews, prompt="{{ text }}", endpoints=server, progress=False)
        held.set()
