"""Every call of the official Python clients that fw serve may get: what passes, and what is refused with which reason.
Run by clients.sh, which names the server in BASE_URL; prints the table of docs/gateway.md, and ends with 1 where a call does
something else than is expected here."""

import asyncio
import io
import json
import os
import sys
import time

import anthropic
import openai
from pydantic import BaseModel

URL, MODEL = os.environ["BASE_URL"], "simulated-3b"
ASKED = [{"role": "user", "content": "Is this review good or bad? It just works."}]
WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Oslo", "Rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": WEATHER, "strict": True}}


class Review(BaseModel):
    mood: str
    stars: int


client = openai.OpenAI(api_key="none", base_url=f"{URL}/v1", max_retries=0)
waiting = openai.AsyncOpenAI(api_key="none", base_url=f"{URL}/v1", max_retries=0)
claude = anthropic.Anthropic(api_key="none", base_url=URL, max_retries=0)
waiting_claude = anthropic.AsyncAnthropic(api_key="none", base_url=URL, max_retries=0)
CALLS = []
#: the server passes it on, and the simulated one refuses it with 400, or answers it in a later version
SIMULATED = "the simulator's own"


def call(name, refused=None):
    """`refused`: the status that it is refused with; the function then raises."""

    def add(work):
        CALLS.append((name, refused, work))
        return work

    return add


@call("openai `chat.completions.create`")
def _():
    answer = client.chat.completions.create(model=MODEL, messages=ASKED, max_tokens=20, temperature=0)
    assert answer.choices[0].message.content and answer.usage.total_tokens and answer.choices[0].finish_reason


@call("… with `logprobs`, `seed`, `stop`")
def _():
    answer = client.chat.completions.create(model=MODEL, messages=ASKED, logprobs=True, top_logprobs=2, seed=3, stop=["###"], max_tokens=5)
    assert answer.choices[0].logprobs.content[0].logprob <= 0


@call("… with `n=2`", refused=SIMULATED)
def _():
    assert len(client.chat.completions.create(model=MODEL, messages=ASKED, n=2, max_tokens=5).choices) == 2


@call("… with `tools`, `tool_choice`", refused=SIMULATED)
def _():
    answer = client.chat.completions.create(model=MODEL, messages=ASKED, tools=[TOOL], tool_choice="required")
    asked = answer.choices[0].message.tool_calls[0]
    assert json.loads(asked.function.arguments)["city"] in ("Oslo", "Rome")
    told = [*ASKED, answer.choices[0].message, {"role": "tool", "tool_call_id": asked.id, "content": "Sunny"}]
    assert client.chat.completions.create(model=MODEL, messages=told, tools=[TOOL], max_tokens=20).choices[0].message


@call("… with `stream=True`, usage at the end")
def _():
    parts = list(client.chat.completions.create(model=MODEL, messages=ASKED, stream=True, max_tokens=20, stream_options={"include_usage": True}))
    assert "".join(part.choices[0].delta.content or "" for part in parts if part.choices) and parts[-1].usage.total_tokens


@call("… with pictures as `image_url`", refused=SIMULATED)
def _():
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    content = [{"type": "text", "text": "What is this?"}, picture]
    assert client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": content}], max_tokens=5).choices


@call("openai `chat.completions.parse` of a pydantic model")
def _():
    answer = client.chat.completions.parse(model=MODEL, messages=ASKED, response_format=Review)
    assert isinstance(answer.choices[0].message.parsed, Review)


@call("openai `chat.completions.parse` with `pydantic_function_tool`", refused=SIMULATED)
def _():
    tool = openai.pydantic_function_tool(Review)
    answer = client.chat.completions.parse(model=MODEL, messages=ASKED, tools=[tool], tool_choice="required")
    assert isinstance(answer.choices[0].message.tool_calls[0].function.parsed_arguments, Review)


@call("openai `chat.completions.stream` of a pydantic model")
def _():
    with client.chat.completions.stream(model=MODEL, messages=ASKED, response_format=Review) as events:
        kinds = {event.type for event in events}
        assert "content.delta" in kinds and isinstance(events.get_final_completion().choices[0].message.parsed, Review)


@call("openai `chat.completions.with_raw_response`, `.with_streaming_response`")
def _():
    raw = client.chat.completions.with_raw_response.create(model=MODEL, messages=ASKED, max_tokens=5)
    assert raw.headers["x-request-id"].startswith("req_") and raw.parse().choices
    with client.chat.completions.with_streaming_response.create(model=MODEL, messages=ASKED, max_tokens=5) as reply:
        assert json.loads(reply.read())["choices"]


@call("openai `completions.create`, streamed too")
def _():
    assert client.completions.create(model=MODEL, prompt="One, two,", max_tokens=5).choices[0].text
    assert list(client.completions.create(model=MODEL, prompt="One, two,", max_tokens=5, stream=True))


@call("openai `responses.create`, `instructions`, `input` as messages")
def _():
    assert client.responses.create(model=MODEL, input="Hello", instructions="Be brief.", max_output_tokens=20).output_text
    answer = client.responses.create(model=MODEL, input=ASKED, reasoning={"effort": "low"}, max_output_tokens=200)
    assert answer.status in ("completed", "incomplete") and answer.usage.total_tokens


@call("… with `tools`, and the call's output as the next input")
def _():
    tool = {"type": "function", "name": "weather", "parameters": WEATHER, "strict": True}
    first = client.responses.create(model=MODEL, input=ASKED, tools=[tool], tool_choice="required")
    asked = next(item for item in first.output if item.type == "function_call")
    told = [*ASKED, *(item.model_dump() for item in first.output), {"type": "function_call_output", "call_id": asked.call_id, "output": "Sunny"}]
    assert client.responses.create(model=MODEL, input=told, max_output_tokens=20).output


@call("openai `responses.parse` of a pydantic model")
def _():
    assert isinstance(client.responses.parse(model=MODEL, input=ASKED, text_format=Review).output_parsed, Review)


@call("openai `responses.create(stream=True)`, `responses.stream` of a pydantic model")
def _():
    kinds = [event.type for event in client.responses.create(model=MODEL, input="Hello", stream=True, max_output_tokens=20)]
    assert kinds[0] == "response.created" and kinds[-1] in ("response.completed", "response.incomplete")
    with client.responses.stream(model=MODEL, input=ASKED, text_format=Review) as events:
        assert any(event.type == "response.output_text.delta" for event in events)
        assert isinstance(events.get_final_response().output_parsed, Review)


@call("openai `embeddings.create`")
def _():
    answer = client.embeddings.create(model=MODEL, input=["a", "b"])
    assert len(answer.data) == 2 and len(answer.data[0].embedding) > 1
    assert client.embeddings.create(model=MODEL, input="a", encoding_format="float").data[0].embedding == answer.data[0].embedding


@call("… of tokens", refused=SIMULATED)
def _():
    assert client.embeddings.create(model=MODEL, input=[[1, 2, 3]]).data


@call("openai `models.list`, `.retrieve`")
def _():
    assert MODEL in [model.id for model in client.models.list()] and client.models.retrieve(MODEL).id == MODEL


@call("openai `files`, `batches`: create, list, retrieve, content, cancel, delete")
def _():
    body = {"model": MODEL, "messages": ASKED, "max_tokens": 5}
    lines = [{"custom_id": f"r{at}", "method": "POST", "url": "/v1/chat/completions", "body": body} for at in range(3)]
    file = client.files.create(file=io.BytesIO("\n".join(map(json.dumps, lines)).encode()), purpose="batch")
    made = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    while (made := client.batches.retrieve(made.id)).status not in ("completed", "failed"):
        time.sleep(0.05)
    assert made.status == "completed" and len(client.files.content(made.output_file_id).text.splitlines()) == 3, made
    assert made.id in [each.id for each in client.batches.list()] and client.files.retrieve(file.id).filename
    assert client.batches.cancel(client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h").id).status in ("cancelling", "cancelled")
    assert client.files.delete(file.id).deleted


@call("openai `files.wait_for_processing`")
def _():
    file = client.files.create(file=("a.jsonl", b"{}\n"), purpose="batch")
    assert client.files.wait_for_processing(file.id).status == "processed"


@call("openai, the asynchronous client: chat, parse, streams, 50 at once")
def _():
    async def work():
        asked = [waiting.chat.completions.create(model=MODEL, messages=ASKED, max_tokens=5, seed=at) for at in range(50)]
        assert len(await asyncio.gather(*asked)) == 50
        assert isinstance((await waiting.responses.parse(model=MODEL, input=ASKED, text_format=Review)).output_parsed, Review)
        async with waiting.chat.completions.stream(model=MODEL, messages=ASKED, response_format=Review) as events:
            assert [event async for event in events]
        assert [model.id async for model in waiting.models.list()]
        await waiting.close()

    asyncio.run(work())


@call("openai `responses.retrieve`, `.delete`, `.cancel`, `.input_items.list`", refused=404)
def _():
    client.responses.retrieve("resp_1")


@call("openai `responses.create(background=True)`, `previous_response_id`, `conversation`", refused=400)
def _():
    client.responses.create(model=MODEL, input="Hello", background=True)


@call("openai `images`, `moderations`, `vector_stores`, `fine_tuning`, `evals`, `conversations`", refused=404)
def _():
    for ask in (
        lambda: client.moderations.create(input="a"),
        lambda: client.vector_stores.create(),
        lambda: client.fine_tuning.jobs.list(),
        lambda: client.conversations.create(),
    ):
        try:
            ask()
            raise AssertionError("expected 404")
        except openai.NotFoundError:
            pass
    client.images.generate(prompt="a")


@call("openai `uploads.create`", refused=404)
def _():
    client.uploads.create(bytes=3, filename="a.jsonl", mime_type="application/jsonl", purpose="batch")


@call("openai `audio.transcriptions.create`")
def _():
    client.audio.transcriptions.create(model=MODEL, file=("a.wav", b"RIFF"))


@call("openai, a model that nobody has", refused=404)
def _():
    client.chat.completions.create(model="nobody", messages=ASKED)


@call("openai, a mistake in a body", refused=400)
def _():
    client.chat.completions.create(model=MODEL, messages=ASKED, temperature="hot")


@call("openai, `max_retries`, over a server of which half the answers fail")
def _():
    asked = openai.OpenAI(api_key="none", base_url=f"{os.environ['FAULTY_URL']}/v1", max_retries=8)
    for at in range(30):
        assert asked.chat.completions.create(model=MODEL, messages=ASKED, max_tokens=5, seed=at).choices


@call("openai, another key", refused=401)
def _():
    openai.OpenAI(api_key="wrong", base_url=f"{os.environ['KEYED_URL']}/v1", max_retries=0).models.list()


@call("anthropic, another key", refused=401)
def _():
    anthropic.Anthropic(api_key="wrong", base_url=os.environ["KEYED_URL"], max_retries=0).messages.create(model=MODEL, messages=ASKED, max_tokens=5)


@call("anthropic, its key in `x-api-key`; openai, as a bearer")
def _():
    key, url = os.environ["KEY"], os.environ["KEYED_URL"]
    assert anthropic.Anthropic(api_key=key, base_url=url, max_retries=0).messages.create(model=MODEL, messages=ASKED, max_tokens=5).content
    assert openai.OpenAI(api_key=key, base_url=f"{url}/v1", max_retries=0).chat.completions.create(model=MODEL, messages=ASKED, max_tokens=5).choices


@call("anthropic `messages.create`, `system`")
def _():
    answer = claude.messages.create(model=MODEL, messages=ASKED, system="Be brief.", max_tokens=20)
    assert answer.content[0].text and answer.usage.output_tokens and answer.stop_reason in ("end_turn", "max_tokens")


@call("… with `tools`, and the tool's result")
def _():
    tool = {"name": "weather", "input_schema": WEATHER}
    first = claude.messages.create(model=MODEL, messages=ASKED, tools=[tool], tool_choice={"type": "any"}, max_tokens=200)
    asked = next(block for block in first.content if block.type == "tool_use")
    assert asked.input["city"] in ("Oslo", "Rome") and first.stop_reason == "tool_use"
    told = [*ASKED, {"role": "assistant", "content": first.content}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": asked.id, "content": "Sunny"}]}]
    assert claude.messages.create(model=MODEL, messages=told, tools=[tool], max_tokens=20).content


@call("anthropic `messages.create(stream=True)`, `messages.stream`")
def _():
    kinds = [event.type for event in claude.messages.create(model=MODEL, messages=ASKED, max_tokens=20, stream=True)]
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop"
    with claude.messages.stream(model=MODEL, messages=ASKED, max_tokens=20) as events:
        assert "".join(events.text_stream) and events.get_final_message().usage.output_tokens


@call("anthropic `messages.parse` of a pydantic model")
def _():
    answer = claude.messages.parse(model=MODEL, messages=ASKED, max_tokens=200, output_format=Review)
    assert isinstance(answer.parsed_output, Review)


@call("anthropic `messages.count_tokens`")
def _():
    assert claude.messages.count_tokens(model=MODEL, messages=ASKED).input_tokens > 0


@call("anthropic `models.list`, `.retrieve`")
def _():
    assert MODEL in [model.id for model in claude.models.list()] and claude.models.retrieve(MODEL).id == MODEL


@call("anthropic, the asynchronous client: messages, streams, 50 at once")
def _():
    async def work():
        asked = [waiting_claude.messages.create(model=MODEL, messages=ASKED, max_tokens=5) for _at in range(50)]
        assert len(await asyncio.gather(*asked)) == 50
        async with waiting_claude.messages.stream(model=MODEL, messages=ASKED, max_tokens=20) as events:
            assert [text async for text in events.text_stream]
        await waiting_claude.close()

    asyncio.run(work())


@call("anthropic `messages.batches`", refused=404)
def _():
    claude.messages.batches.list()


@call("anthropic `beta.files.list`: OpenAI's files, which are the only ones")
def _():
    assert claude.beta.files.list().data


@call("anthropic, a model that nobody has", refused=404)
def _():
    claude.messages.create(model="nobody", messages=ASKED, max_tokens=5)


@call("anthropic, a mistake in a body", refused=400)
def _():
    claude.messages.create(model=MODEL, messages=[], max_tokens=5)


def outcome(refused, work):
    """What came of it, as the table has it, and whether that was expected."""
    try:
        work()
        return ("passes", True) if refused in (None, SIMULATED) else (f"passed, expected {refused}", False)
    except (openai.APIStatusError, anthropic.APIStatusError) as error:
        body = error.body or {}
        said = (body.get("error") or body).get("message") or str(error)
        if refused == SIMULATED and error.status_code == 400:
            return "passed on; the simulator refuses it", True
        return f"{error.status_code}: {said}", error.status_code == refused and bool(error.request_id)
    except Exception as error:
        return f"{type(error).__name__}: {error}", False


def main():
    wrong = 0
    print(f"| call (openai {openai.__version__}, anthropic {anthropic.__version__}) | |\n| --- | --- |")
    for name, refused, work in CALLS:
        said, is_expected = outcome(refused, work)
        wrong += not is_expected
        print(f"| {name} | {said.replace('|', '/')[:300]}{'' if is_expected else ' **unexpected**'} |")
    return 1 if wrong else 0


sys.exit(main())
