"""The official Python client against fw serve: every call of Files and Batches, and the errors that it makes of answers.
Run by serve-python.sh, which names the server in BASE_URL."""
import json
import os
import tempfile
import time

import openai

MODEL = "simulated-3b"
client = openai.OpenAI(api_key="none", base_url=os.environ["BASE_URL"], max_retries=0)


def lines(count, **body):
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}], **body}
    for n in range(count):
        yield json.dumps({"custom_id": f"r-{n}", "method": "POST", "url": "/v1/chat/completions", "body": body})


def upload(text, name="größe.jsonl"):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        with open(path, "w") as file:
            file.write(text)
        with open(path, "rb") as file:
            return client.files.create(file=file, purpose="batch")


def create(file, window="24h"):
    return client.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window=window, metadata={"run": "1"}
    )


def ended(batch):
    while batch.status not in ("completed", "failed", "cancelled", "expired"):
        time.sleep(0.05)
        batch = client.batches.retrieve(batch.id)
    return batch


def refused(act, kind):
    try:
        act()
    except kind as error:
        assert error.request_id.startswith("req_"), error
        return error
    raise AssertionError(f"expected {kind.__name__}")


file = upload("\n".join(lines(25)))
assert (file.filename, file.status, file.purpose) == ("größe.jsonl", "processed", "batch"), file
batch = ended(create(file))
assert batch.status == "completed" and batch.request_counts.completed == 25, batch
assert batch.usage.total_tokens > 0 and batch.metadata == {"run": "1"}, batch
out = [json.loads(line) for line in client.files.content(batch.output_file_id).text.splitlines()]
assert [line["custom_id"] for line in out] == [f"r-{n}" for n in range(25)]
with client.files.with_streaming_response.content(batch.output_file_id) as reply:
    assert sum(1 for _ in reply.iter_lines()) == 25

for _ in range(3):
    create(file)
assert len([one.id for one in client.batches.list(limit=2)]) == 4
assert len([one.id for one in client.files.list(limit=2, purpose="batch")]) == 1
slow = upload("\n".join(lines(5000, max_tokens=64)))
cancelled = client.batches.cancel(create(slow).id)
assert cancelled.status == "cancelling", cancelled
cancelled = ended(cancelled)
assert cancelled.status == "cancelled", cancelled
failed = ended(create(upload("{}\n")))
assert failed.status == "failed" and failed.errors.data[0].line == 1, failed
assert client.files.delete(slow.id).deleted
refused(lambda: client.files.retrieve(slow.id), openai.NotFoundError)
refused(lambda: client.batches.retrieve("batch_" + "0" * 32), openai.NotFoundError)
error = refused(lambda: create(file, "soon"), openai.BadRequestError)
assert error.param == "completion_window" and error.type == "invalid_request_error", error
print(f"ok: openai {openai.__version__} of Python")
