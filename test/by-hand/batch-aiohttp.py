"""What test/by-hand/batch.sh compares fw batch with: the same work on aiohttp, a semaphore, and as many tasks as that.

    python3 batch-aiohttp.py INPUT OUTPUT http://127.0.0.1:PORT CONCURRENCY

Reads the lines of a batch file, asks each, writes an output line for each as it is answered: no order, no ledger, no
check before, one retry. Exit code 1 where a line was given up.
"""
import asyncio
import json
import sys

import aiohttp


async def main(path, out, server, concurrency):
    lines = open(path, encoding='utf-8')
    output = open(out, 'w', encoding='utf-8')
    failed = 0

    async def ask(session, line):
        nonlocal failed
        request = json.loads(line)
        for attempt in (1, 2):
            try:
                async with session.post(server + request['url'], json=request['body']) as response:
                    response.raise_for_status()
                    body = await response.json()
                    break
            except (aiohttp.ClientError, ValueError):
                if attempt == 2:
                    failed += 1
                    return
        result = {
            'id': f'batch_req_{request["custom_id"]}',
            'custom_id': request['custom_id'],
            'response': {'status_code': 200, 'request_id': request['custom_id'], 'body': body},
            'error': None,
        }
        output.write(json.dumps(result, ensure_ascii=False, separators=(',', ':')) + '\n')

    async def worker(session):
        for line in lines:
            await ask(session, line)

    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        await asyncio.gather(*(worker(session) for _ in range(concurrency)))
    output.close()
    return 1 if failed else 0


sys.exit(asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))))
