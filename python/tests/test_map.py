"""`map` and `stream`: values, order, failures, and what is refused before anything is asked."""

from __future__ import annotations

import datetime
import json
import random
import threading

import pytest

import fairwatch as fw

ASK = "Is this a good or a bad review? {{ text }}"
SCHEMA = {
    "type": "object",
    "required": ["mood", "stars"],
    "additionalProperties": False,
    "properties": {"mood": {"enum": ["good", "bad"]}, "stars": {"type": "integer", "minimum": 1, "maximum": 5}},
}


def answers_on_record():
    return [call for call in fw.ledger() if call["outcome"] == "answer"]


def test_rows_keep_their_order_and_get_columns(server, reviews):
    result = fw.map(reviews, prompt=ASK, schema=SCHEMA, endpoints=[server], progress=False)
    assert [row["text"] for row in result] == [row["text"] for row in reviews]
    assert list(result[0]) == [
        *("stars", "text", "answer.mood", "answer.stars", "answer_rung", "answer_failure", "answer_id")
    ]
    for row in result:
        assert row["answer.mood"] in ("good", "bad") and 1 <= row["answer.stars"] <= 5
        assert (row["answer_rung"], row["answer_failure"]) == ("clean", None)


def test_the_same_call_asks_nothing_again_even_without_a_server(server, reviews, capsys):
    first = fw.map(reviews, prompt=ASK, choice=["good", "bad"], endpoints=server, model="simulated-3b", progress=False)
    gone = "http://127.0.0.1:9/v1"
    again = fw.map(reviews, prompt=ASK, choice=["good", "bad"], endpoints=gone, model="simulated-3b")
    assert again == first
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 3 and said[1].startswith("fairwatch: continuing with the 3 answers on record: ")
    assert len(answers_on_record()) == len(reviews)


def test_the_last_line_says_what_was_asked(server, reviews, capsys):
    for calls in ("3 calls", "0 calls + 3 replayed"):
        fw.map(reviews, prompt=ASK, choice=["good", "bad"], endpoints=server)
        first, last = capsys.readouterr().err.splitlines()
        assert first.endswith("/ledger; the same call again asks only what is missing")
        assert last.startswith(f"fairwatch: 3 of 3 rows · 3 clean · {calls} · tokens ")


def test_rows_that_are_equal_are_each_asked(server, reviews):
    rows = [reviews[0], reviews[1], reviews[0]]
    result = fw.map(rows, prompt=ASK, choice=["good", "bad"], endpoints=server, progress=False)
    assert all(row["answer"] in ("good", "bad") for row in result)
    assert result[2]["answer_id"] == f"{result[0]['answer_id']}-2"


def test_a_part_of_a_table_has_the_answers_of_the_whole(server, reviews):
    fw.map(reviews, prompt=ASK, endpoints=server, progress=False)
    fw.map(reviews[1:], prompt=ASK, endpoints=server, progress=False)
    assert len(answers_on_record()) == len(reviews)


def test_a_prompt_may_be_a_function(server, reviews):
    result = fw.map(reviews, prompt=lambda row: f"{row['stars']}: {row['text']}", endpoints=server, progress=False)
    assert all(isinstance(row["answer"], str) for row in result)
    prompts = {call["input"][-1]["content"] for call in answers_on_record()}
    assert prompts == {f"{row['stars']}: {row['text']}" for row in reviews}


def test_a_failure_is_a_column_or_an_exception(server, reviews):
    reviews[1]["text"] = None
    given = {"prompt": ASK, "choice": ["good", "bad"], "endpoints": server, "progress": False}
    result = fw.map(reviews, **given)
    assert [row["answer_rung"] for row in result] == ["clean", "failed", "clean"]
    assert result[1]["answer"] is None and result[1]["answer_failure"].startswith("template-failed: ")
    with pytest.raises(fw.AnswersFailed, match="the first, of row 1: template-failed") as raised:
        fw.map(reviews, on_failure="raise", **given)
    assert raised.value.result == result
    assert [(at, failure.code) for at, failure in raised.value.failures] == [(1, "template-failed")]


def test_the_column_id_names_rows(server, reviews):
    rows = [{"id": f"r{at}", **row} for at, row in enumerate(reviews)]
    result = fw.map(rows, prompt=ASK, endpoints=server, progress=False)
    assert [row["answer_id"] for row in result] == ["r0", "r1", "r2"]
    twice = fw.map(rows[:2], id="stars", prompt=ASK, endpoints=server, progress=False, name="again")
    assert [row["again_id"] for row in twice] == ["5", "1"]


def test_items_are_written_whole(server, reviews, home):
    fw.map(reviews, prompt=ASK, endpoints=server, items="out/items.ndjson", progress=False)
    items = fw.items("out/items.ndjson")
    assert sorted(item["row"] for item in items) == [1, 2, 3]
    assert items[0]["steps"][0]["rung"] == "clean"
    assert [path.name for path in (home / "out").iterdir()] == ["items.ndjson"]


def test_answers_come_as_they_are_ready(server, reviews):
    asked = (row for row in reviews)
    answers = sorted(fw.stream(asked, prompt=ASK, choice=["good", "bad"], endpoints=server))
    assert [answer.position for answer in answers] == [0, 1, 2]
    assert all(answer.value in ("good", "bad") and answer.failure is None for answer in answers)


def test_rows_that_wait_are_answered_meanwhile(server):
    answered = threading.Event()

    def rows():
        yield {"text": "one"}
        answered.wait()
        yield {"text": "two"}

    for answer in fw.stream(rows(), prompt=ASK, endpoints=server):
        assert answer.failure is None
        answered.set()
    assert answer.position == 1


def test_leaving_a_loop_stops_the_run(server):
    rows = [{"text": str(at)} for at in range(5_000)]
    for answer in fw.stream(rows, prompt=ASK, endpoints=server, in_flight=4):
        assert answer.failure is None
        break
    assert len(answers_on_record()) < len(rows)


def test_what_rows_hold_arrives_as_it_is(server):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    signs = [chr(each) for each in range(0x20, 0x7F)] + list('"\\\n\t\u00e9\u2028\ufeff\U0001f600{}%')
    rows = [{"text": "".join(chance.choices(signs, k=chance.randrange(1, 60))) + "."} for _ in range(50)]
    fw.map(rows, prompt="{{ text }}", endpoints=server, items="items.ndjson", progress=False)
    found = {item["row"] - 1: item["input"]["text"] for item in fw.items("items.ndjson")}
    assert [found[at] for at in range(len(rows))] == [row["text"] for row in rows]


def test_values_that_are_no_text(server):
    row = {
        **{"number": 12345678901234567890, "float": 8.5, "yes": True, "list": ["a", {"b": 1}]},
        **{"day": datetime.date(2026, 11, 27), "bytes": b"\x00\xff"},
    }
    fw.map([row], prompt="{{ number }}", endpoints=server, items="items.ndjson", progress=False)
    found = fw.items("items.ndjson")[0]["input"]
    assert found["number"] == "12345678901234567890" and found["float"] == "8.5" and found["yes"] == "true"
    assert json.loads(found["list"]) == ["a", {"b": 1}]
    assert found["day"] == "2026-11-27" and found["bytes"] == "AP8="


def test_a_table_without_rows(server):
    assert fw.map([], prompt=ASK, endpoints=server, progress=False) == []
    assert list(fw.stream(iter(()), prompt=ASK, endpoints=server)) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"prompt": "Classify this."}, r"expected a column in it, found none; .*\{\{ stars \}\}"),
        ({"prompt": "Classify {text}"}, r"columns are in two braces: \{\{ text \}\}"),
        ({"prompt": "text"}, r"the column itself is '\{\{ text \}\}'"),
        ({"prompt": ASK, "choice": ["a"], "regex": "a"}, "expected one of schema, choice and regex"),
        ({"prompt": ASK, "on_failure": "ignore"}, "on_failure: expected"),
        ({"prompt": ASK, "id": "key"}, "id: expected a column of the table, found 'key'"),
        ({"prompt": ASK, "name": "Answer!"}, "expected a key of small letters"),
        ({"prompt": ASK, "schema": {}, "name": "text"}, "expected no column that an answer needs, found text"),
    ],
)
def test_a_mistake_is_said_before_anything_is_asked(reviews, given, message):
    with pytest.raises(ValueError, match=message):
        fw.map(reviews, **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"prompt": ASK, "schema": int}, "schema: expected a model of pydantic"),
        ({"prompt": ASK, "temperature": 0}, "temperature: expected it in sampling"),
        ({"prompt": ASK, "choise": ["a"]}, "choise: expected an argument .* did you mean choice=?"),
        ({"prompt": ASK, "retry_failed": True}, "retry_failed: expected more attempts"),
    ],
)
def test_a_wrong_kind_is_said_before_anything_is_asked(reviews, given, message):
    with pytest.raises(TypeError, match=message):
        fw.map(reviews, **given)
    with pytest.raises(TypeError, match="table: expected a DataFrame"):
        fw.map("reviews.csv", prompt=ASK)


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"prompt": "{{ txt }}"}, "data", "expected the columns 'txt', found 'stars', 'text'"),
        ({"prompt": ASK, "in_flght": 3}, "data", "in-flight"),
        ({"prompt": ASK, "sampling": {"temprature": 1}}, "data", "temprature"),
        ({"prompt": ASK, "model": "another"}, "usage", "another"),
    ],
)
def test_what_the_program_refuses_is_an_error_with_its_words(server, reviews, given, kind, message):
    with pytest.raises(fw.FairwatchError, match=message) as raised:
        fw.map(reviews, endpoints=server, progress=False, **given)
    assert raised.value.kind == kind


def test_a_row_that_json_cannot_hold_is_named(server, reviews):
    reviews[2]["text"] = float("nan")
    with pytest.raises(ValueError, match="row 2, column 'text'"):
        fw.map(reviews, prompt=ASK, endpoints=server, progress=False)
    with pytest.raises(ZeroDivisionError):
        fw.map(reviews, prompt=lambda row: 1 / 0, endpoints=server, progress=False)


def test_without_an_endpoint_it_says_how_to_name_one(reviews, home):
    with pytest.raises(fw.FairwatchError, match=r'found none: endpoints=\["http://HOST:PORT/v1"\], or the environment'):
        fw.map(reviews, prompt=ASK, progress=False)
    assert list(home.iterdir()) == []


def test_a_simulated_server_may_outlive_a_cell(reviews):
    server = fw.simulate(seed=7)
    assert fw.map(reviews[:1], prompt=ASK, endpoints=server, progress=False)[0]["answer_failure"] is None
    server.close()
    server.close()
