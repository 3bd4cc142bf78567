/** Servers that are started and stopped: real processes, in groups of their own. What fails is named, and nothing stays. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createEndpoint } from '../../engine/asking/pool/pool-state.ts';
import { isGroupAlive, MARK, markedBy } from '../../products/measure/tune/processes.ts';
import {
  type Server,
  StartFailed,
  startServer,
  stopMarked,
} from '../../products/measure/tune/tuned-server.ts';
import { freePort } from '../free-port.ts';
import { folder, ROOT } from '../fw.ts';

const TIMES = { poll: 10, grace: 400, pause: 0 };

let marks = 0;
async function starting(mode: string, { port, readyMs = 60_000 }: { port?: number; readyMs?: number } = {}) {
  const at = port ?? (await freePort());
  const mark = `test-${process.pid}-${++marks}`;
  return {
    mark,
    start: (signal = new AbortController().signal): Promise<Server> =>
      startServer({
        command: `node ${join(ROOT, 'test/tune/server.mjs')} ${mode} ${at}`,
        endpoint: createEndpoint({ url: `http://127.0.0.1:${at}/v1`, limit: 1, pinned: true }, 0, undefined),
        mark,
        log: join(folder(), 'server.log'),
        readyMs,
        times: TIMES,
        signal,
      }),
    at,
  };
}

async function failureOf(promise: Promise<Server>): Promise<StartFailed> {
  const error = await promise.then(
    () => null,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(StartFailed);
  return error as StartFailed;
}

test('a server that works is ready, and is gone after it was stopped', async () => {
  const { start, mark } = await starting('works');
  const server = await start();
  expect(server.proof).toMatch(/^nothing listened at .* before, and process_start_time_seconds is/);
  expect(server.ended()).toBeNull();
  expect(markedBy(mark)).not.toEqual([]);
  expect(await server.stop()).toEqual([]);
  expect(markedBy(mark)).toEqual([]);
  await server.endpoint.wire.close();
});

test('one that ends, for want of memory or for another reason, says so with its last lines', async () => {
  const crash = await failureOf((await starting('crash')).start());
  expect(crash.failure).toMatchObject({
    kind: 'does-not-start',
    message: 'it ended with code 3 before it was ready',
  });
  expect(crash.failure.lines).toEqual(['begins as crash', 'ValueError: no such model']);
  const memory = await failureOf((await starting('memory')).start());
  expect(memory.failure.kind).toBe('out-of-memory');
});

test.each(['silent', 'loading'])('one that is %s for too long is stopped', async mode => {
  const { start, mark } = await starting(mode, { readyMs: 700 });
  const { failure, left } = await failureOf(start());
  expect(failure.kind).toBe('never-healthy');
  expect(left).toEqual([]);
  expect(markedBy(mark)).toEqual([]);
});

test('one that is deaf to TERM is killed', async () => {
  const { start, mark } = await starting('stubborn');
  const server = await start();
  expect(await server.stop()).toEqual([]);
  expect(markedBy(mark)).toEqual([]);
  await server.endpoint.wire.close();
});

test('what it leaves behind is named and ended', async () => {
  const { start, mark } = await starting('children');
  const server = await start();
  const left = await server.stop();
  expect(left).toHaveLength(1);
  expect(left[0]?.name).toBe('node');
  expect(markedBy(mark)).toEqual([]);
  await server.endpoint.wire.close();
});

test('where something listens already, nothing is started and nothing stopped', async () => {
  const own = createServer().listen(0, '127.0.0.1');
  await once(own, 'listening');
  const { start, mark } = await starting('works', { port: (own.address() as AddressInfo).port });
  await expect(start()).rejects.toMatchObject({
    exit: 69,
    message: expect.stringMatching(/expected .* to be free, found a server there/),
  });
  expect(markedBy(mark)).toEqual([]);
  expect(own.listening).toBe(true);
  own.close();
});

test('a server that began before it was started is none of ours', async () => {
  const { start } = await starting('old');
  expect((await failureOf(start())).failure.kind).toBe('old-server');
});

test('a start that is stopped leaves nothing', async () => {
  const { start, mark } = await starting('silent');
  const stopping = new AbortController();
  const ended = start(stopping.signal).catch(error => error);
  stopping.abort();
  expect((await ended) as Error).toMatchObject({ name: 'AbortError' });
  expect(markedBy(mark)).toEqual([]);
});

test('one that dies while it is measured says how', async () => {
  const { start, at } = await starting('works');
  const server = await start();
  await fetch(`http://127.0.0.1:${at}/die`).catch(() => {});
  await expect.poll(() => server.ended()?.message).toBe('it ended with code 9');
  expect(server.ended()?.kind).toBe('died');
  await server.stop();
  await server.endpoint.wire.close();
});

test('processes of a run that was killed are found by their mark, and no others', async () => {
  const mark = `test-${process.pid}-left`;
  const begin = (env: NodeJS.ProcessEnv) =>
    spawn(process.execPath, ['-e', "console.log('up'); setInterval(() => {}, 1000)"], {
      detached: true,
      stdio: ['ignore', 'pipe', 'ignore'],
      env: { ...process.env, ...env },
    });
  const [ours, other] = [begin({ [MARK]: mark }), begin({ [MARK]: `${mark}-2` })];
  await Promise.all([once(ours.stdout, 'data'), once(other.stdout, 'data')]);
  const gone = once(ours, 'exit');
  expect((await stopMarked(mark, TIMES)).map(({ pid }) => pid)).toEqual([ours.pid]);
  await gone;
  expect(isGroupAlive(other.pid as number)).toBe(true);
  other.kill('SIGKILL');
});
