"""A DataFrame of many rows by fairwatch, the same by `fw run`, and by aiohttp with fastjsonschema. See python-cpu.sh.

    python-cpu.py make FOLDER ROWS          rows.ndjson, the pipeline and its agent
    python-cpu.py fairwatch|command|aiohttp FOLDER URL      a line of JSON: CPU of the process and of what it started, memory
"""

import json
import os
import pathlib
import resource
import subprocess
import sys
import time

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["mood", "stars", "why"],
    "properties": {
        "mood": {"enum": ["good", "bad"]},
        "stars": {"type": "integer", "minimum": 1, "maximum": 5},
        "why": {"type": "string", "maxLength": 400},
    },
}
WORDS = "the parcel came late but works and nobody answers when called about this thin manual which is good".split()
PROMPT = "Rate this review as JSON: {{ text }}"
SYSTEM = "You rate reviews of a shop. Answer with JSON alone."
IN_FLIGHT = 128


def make(folder, rows):
    import random

    chance = random.Random(7)
    with open(f"{folder}/rows.ndjson", "w") as file:
        for at in range(int(rows)):
            row = {"id": f"r{at}", "stars": at % 6, "text": f"{at}: {' '.join(chance.choices(WORDS, k=40))}"}
            file.write(json.dumps(row) + "\n")
    answer = json.dumps({"mood": "good", "stars": 4, "why": "It does what it should, and the manual is thin."})
    reply = {
        **{"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "mock"},
        "choices": [{"index": 0, "message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 90, "completion_tokens": 30, "total_tokens": 120},
    }
    with open(f"{folder}/reply.json", "w") as file:
        json.dump(reply, file)


def memory(name):
    """MB of this process."""
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith(name)).split()[1]) >> 10


def by_fairwatch(folder, url):
    import pandas as pd

    import fairwatch as fw

    frame = pd.read_json(f"{folder}/rows.ndjson", lines=True)
    table = int(frame.memory_usage(deep=True).sum())
    with open("/proc/self/clear_refs", "w") as peak:  # the peak is counted from here on
        peak.write("5")
    before = memory("VmRSS")
    result = fw.map(
        frame, prompt=PROMPT, schema=SCHEMA, system=SYSTEM, endpoints=url, model="mock",
        in_flight=IN_FLIGHT, ledger=f"{folder}/ledger-python", progress=os.environ.get("PROGRESS") == "1",
    )  # fmt: skip
    assert (result["answer.stars"] == 4).all() and result["answer_failure"].isna().all()
    return {"rows": len(result), "table_mb": table >> 20, "mb_more": memory("VmHWM") - before}


def by_command(folder, url):
    from fairwatch import _program, _task

    home = pathlib.Path(folder, "task").resolve()
    home.mkdir(exist_ok=True)
    agent = _task.one_agent("answer", SYSTEM, SCHEMA, None, None, None)
    if not (home / "map.yaml").exists():
        options = {"in_flight": IN_FLIGHT}
        _task.write_task(home, label="map", prompt=PROMPT, agents=[agent], decision=False, id_column="id", options=options)
    run = ["run", str(home / "map.yaml"), "--endpoint", url, "--model", "mock", "--ledger", f"{folder}/ledger-command"]
    with open(f"{folder}/rows.ndjson") as rows, open(f"{folder}/items.ndjson", "w") as out:
        subprocess.run(_program.command(run), stdin=rows, stdout=out, stderr=subprocess.DEVNULL, check=True)
    return {"rows": sum(1 for _line in open(f"{folder}/items.ndjson"))}


def by_aiohttp(folder, url):
    import asyncio

    import aiohttp
    import fastjsonschema
    import pandas as pd

    frame = pd.read_json(f"{folder}/rows.ndjson", lines=True)
    check = fastjsonschema.compile(SCHEMA)

    async def main():
        semaphore = asyncio.Semaphore(IN_FLIGHT)
        texts = frame["text"].tolist()
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def one(text):
                messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": PROMPT.replace("{{ text }}", text)}]
                form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}
                body = {"model": "mock", "messages": messages, "temperature": 0.0, "max_tokens": 1024, "response_format": form}
                async with semaphore, session.post(f"{url}/chat/completions", json=body) as response:
                    response.raise_for_status()
                    reply = await response.json()
                answer = json.loads(reply["choices"][0]["message"]["content"])
                check(answer)
                return answer

            return await asyncio.gather(*(one(text) for text in texts))

    answers = asyncio.run(main())
    result = pd.concat([frame, pd.DataFrame(answers, index=frame.index).add_prefix("answer.")], axis=1)
    assert (result["answer.stars"] == 4).all()
    return {"rows": len(result)}


if sys.argv[1] == "make":
    make(*sys.argv[2:])
else:
    begun = time.monotonic()
    said = {"fairwatch": by_fairwatch, "command": by_command, "aiohttp": by_aiohttp}[sys.argv[1]](*sys.argv[2:])
    own, below = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    if sys.argv[1] == "command":  # what starts it is no part of it
        own = below
        below = None
    cpu = {"user_s": own.ru_utime + (below.ru_utime if below else 0), "sys_s": own.ru_stime + (below.ru_stime if below else 0)}
    memory = {"own_user_s": own.ru_utime, "max_mb": own.ru_maxrss >> 10}
    numbers = {name: round(value, 2) for name, value in {**cpu, **memory, "wall_s": time.monotonic() - begun}.items()}
    print(json.dumps({"way": sys.argv[1], **said, **numbers}), flush=True)
