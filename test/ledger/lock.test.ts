/** One run at a time, by real processes: two at once, holders that were killed, other boots and hosts. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { type Lock, takeLock } from '../../engine/asking/ledger/lock.ts';
import { standBy, whenFree } from '../../engine/asking/ledger/lock-waiting.ts';
import type { Fatal } from '../../engine/core/item/failure.ts';
import { runs } from '../all.ts';
import { folder, ROOT, until } from '../fw.ts';

const links = vi.hoisted(() => ({ fail: null as ((made: () => void) => Error) | null }));
vi.mock('node:fs', async original => {
  const fs = await original<typeof import('node:fs')>();
  const linkSync: typeof fs.linkSync = (from, to) => {
    if (links.fail !== null) throw links.fail(() => fs.linkSync(from, to));
    fs.linkSync(from, to);
  };
  return { ...fs, linkSync };
});
const refused = (code: string): Error => Object.assign(new Error(`${code}: link`), { code, syscall: 'link' });

const HOLDER = join(folder(), 'holder.mjs');
beforeAll(() => {
  const esbuild = join(ROOT, 'node_modules', '.bin', 'esbuild');
  const flags = ['--bundle', '--format=esm', '--platform=node', '--log-level=warning', `--outfile=${HOLDER}`];
  execFileSync(esbuild, [join(ROOT, 'test', 'ledger', 'holder.ts'), ...flags]);
});

const started: ChildProcess[] = [];
afterEach(() => {
  links.fail = null;
  for (const child of started.splice(0)) child.kill('SIGKILL');
});

interface Held {
  child: ChildProcess;
  said: string;
  /** what it says when it has lost the lock */
  news: Promise<string[]>;
}

async function holder(at: string, { when = 0, beat = 5_000 } = {}): Promise<Held> {
  const child = spawn(process.execPath, [HOLDER, at, 'a run', String(when), String(beat)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  started.push(child);
  const lines = createInterface(child.stdout);
  const [said] = (await once(lines, 'line')) as [string];
  return { child, said, news: once(lines, 'line') as Promise<string[]> };
}

const lockIn = (at: string): string => join(at, readdirSync(at).find(name => name.endsWith('.lock'))!);

function refusal(at: string): Fatal {
  try {
    takeLock(at, 'a run').release();
  } catch (error) {
    return error as Fatal;
  }
  throw new Error('expected a refusal, found a lock');
}

/** Takes the lock and gives it back: nobody holds it. */
function expectFree(at: string): void {
  takeLock(at, 'a run').release();
  expect(readdirSync(at)).toEqual([]);
}

test('a second run is told who has it; after the first it is free, and nothing is left', async () => {
  const at = folder();
  const { child, said } = await holder(at);
  expect(said).toBe('held');
  const { exit, message } = refusal(at);
  expect(exit).toBe(64);
  expect(message).toMatch(
    new RegExp(`the ledger is in use by process ${child.pid} on .*, since 20.*remove ${lockIn(at)}\n`, 's'),
  );
  expect(message).toContain('each need another JOB_COMPLETION_INDEX or SLURM_ARRAY_TASK_ID');
  takeLock(at, 'another run').release(); // what is not the same may run beside it
  child.stdin?.end();
  await once(child, 'close');
  expectFree(at);
});

test('within one process too', () => {
  const at = folder();
  const { release } = takeLock(at, 'a run');
  expect(refusal(at).exit).toBe(64);
  release();
  expectFree(at);
});

test('of many that begin at once one gets it', async () => {
  for (let round = 0; round < runs(1, 3, 'ROUNDS'); round++) {
    const at = folder();
    const when = Date.now() + 400;
    const all = await Promise.all(Array.from({ length: 6 }, () => holder(at, { when })));
    expect(all.filter(({ said }) => said === 'held')).toHaveLength(1);
    for (const { said } of all) expect(said).toMatch(/^held$|the ledger is in use by/);
    expect(readdirSync(at)).toHaveLength(1);
  }
});

describe('a holder that is gone', () => {
  test('killed: the next one takes its place', async () => {
    const at = folder();
    const { child } = await holder(at);
    child.kill('SIGKILL');
    await once(child, 'close');
    expect(existsSync(lockIn(at))).toBe(true);
    expectFree(at);
  });

  test('of many that find the same stale lock at once one gets it', async () => {
    for (let round = 0; round < runs(1, 3, 'ROUNDS'); round++) {
      const at = folder();
      const { child } = await holder(at);
      child.kill('SIGKILL');
      await once(child, 'close');
      const when = Date.now() + 400;
      const all = await Promise.all(Array.from({ length: 6 }, () => holder(at, { when })));
      expect(all.filter(({ said }) => said === 'held')).toHaveLength(1);
      expect(readdirSync(at)).toHaveLength(1);
    }
  });

  test('killed while it removed a stale lock', async () => {
    const at = folder();
    const { child } = await holder(at);
    child.kill('SIGKILL');
    await once(child, 'close');
    const lock = lockIn(at);
    writeFileSync(`${lock}.breaking`, readFileSync(lock));
    expectFree(at);
  });

  test('a zombie, which its parent has not asked about', async () => {
    const at = folder();
    // the holder's parent becomes a sleep, which never asks
    const line = `"${process.execPath}" "${HOLDER}" "${at}" "a run" < /dev/zero & exec sleep 60`;
    const parent = spawn('bash', ['-c', line], { stdio: ['ignore', 'pipe', 'inherit'] });
    started.push(parent);
    await once(createInterface(parent.stdout), 'line');
    const { pid } = JSON.parse(readFileSync(lockIn(at), 'utf8'));
    process.kill(pid, 'SIGKILL');
    const stateOf = () => /\) (\w) /.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1];
    while (stateOf() !== 'Z') await new Promise(setImmediate);
    expectFree(at);
  });

  const edited = async (change: object): Promise<string> => {
    const at = folder();
    await holder(at);
    const lock = lockIn(at);
    writeFileSync(lock, JSON.stringify({ ...JSON.parse(readFileSync(lock, 'utf8')), ...change }));
    return at;
  };

  test('the machine was started again since a lock of version 0.1.0, which nobody renews', async () => {
    expectFree(await edited({ boot: '00000000-0000-0000-0000-000000000000', beat: undefined }));
  });

  test('its process id was given to another since', async () => {
    expectFree(await edited({ begun: '1' }));
    expectFree(await edited({ pid: 2 ** 22 + 1 }));
  });

  test.each([
    ['another host', { host: 'elsewhere', pid: 2 ** 22 + 1, boot: 'x' }],
    ['another PID namespace', { namespace: 'pid:[1]', pid: 2 ** 22 + 1 }],
    ['another machine of this name, or another start of this one', { boot: 'x', pid: 2 ** 22 + 1 }],
    ['another host, by version 0.1.0', { host: 'elsewhere', namespace: undefined, beat: undefined }],
  ])('%s cannot be looked at, and counts as alive', async (_, change) => {
    const at = await edited(change);
    expect(refusal(at).exit).toBe(64);
    expect(readdirSync(at)).toHaveLength(1);
  });

  test('a system that says neither boot nor start: the process id alone decides', async () => {
    expect(refusal(await edited({ begun: null })).exit).toBe(64);
  });
});

test.each(['', '{', 'null', '[]', '{"pid":"1"}', '{"pid":1.5,"host":"a"}', 'x'.repeat(100_000)])(
  'a lock that says nothing readable (%#) is left to a person',
  text => {
    const at = folder();
    takeLock(at, 'a run').release();
    const { release } = takeLock(at, 'a run');
    const lock = lockIn(at);
    writeFileSync(lock, text);
    const { exit, message } = refusal(at);
    expect(exit).toBe(64);
    expect(message).toContain(`somebody unknown\nwait for it or stop it; if it is gone, remove ${lock}\n`);
    // who held it no longer does, and does not remove what is another's
    release();
    expect(readFileSync(lock, 'utf8')).toBe(text);
  },
);

describe('file systems', () => {
  test('without hard links a lock is a file of its own', () => {
    for (const code of ['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS']) {
      const at = folder();
      links.fail = () => refused(code);
      const { release } = takeLock(at, 'a run');
      expect(refusal(at).exit).toBe(64);
      release();
      expectFree(at);
    }
  });

  test('a link that was made and whose reply was lost on the network is ours', () => {
    const at = folder();
    links.fail = made => {
      made();
      links.fail = null;
      return refused('EEXIST');
    };
    const { release } = takeLock(at, 'a run');
    expect(refusal(at).exit).toBe(64);
    release();
    expectFree(at);
  });

  test('a folder that cannot be written to says so', () => {
    for (const code of ['EROFS', 'EACCES', 'ENOSPC']) {
      links.fail = () => refused(code);
      expect(() => takeLock(folder(), 'a run')).toThrow(code);
    }
  });
});

describe('a holder that cannot be looked at is watched', () => {
  const BEAT = 100;
  const ELSEWHERE = { namespace: 'pid:[1]', pid: 2 ** 22 + 1 };
  const said: string[] = [];
  const free = (at: string, signal = new AbortController().signal): Promise<Lock> =>
    whenFree(gone => takeLock(at, 'a run', { gone }), { warn: message => void said.push(message), signal });
  /** What `holder` would have written in another namespace; it goes on with what it wrote itself. */
  const elsewhere = (at: string): string => {
    const lock = lockIn(at);
    const text = JSON.stringify({ ...JSON.parse(readFileSync(lock, 'utf8')), ...ELSEWHERE });
    writeFileSync(lock, text);
    return text;
  };

  test('one that is gone is silent, and the next one takes its place', async () => {
    const at = folder();
    const { child } = await holder(at, { beat: BEAT });
    child.kill('SIGKILL');
    await once(child, 'close');
    elsewhere(at);
    said.length = 0;
    const lock = await free(at);
    expect(said).toEqual([expect.stringContaining('cannot be checked from this machine; waiting 1.2 s')]);
    lock.release();
    expect(readdirSync(at)).toEqual([]);
  });

  test('one that lives renews its lock, and is told', async () => {
    const at = folder();
    const lock = takeLock(at, 'a run');
    // the process itself does it here, so that a busy machine slows both down
    const text = elsewhere(at).replace('"beat":5000', `"beat":${BEAT}`);
    writeFileSync(lockIn(at), text);
    const beats = setInterval(() => utimesSync(lockIn(at), new Date(), new Date()), BEAT / 4);
    await expect(free(at)).rejects.toThrow('the ledger is in use by');
    clearInterval(beats);
    expect(readFileSync(lockIn(at), 'utf8')).toBe(text);
    lock.release();
  });

  test('a real holder renews what it wrote', async () => {
    const at = folder();
    await holder(at, { beat: BEAT });
    const changed = (): bigint => statSync(lockIn(at), { bigint: true }).mtimeNs;
    for (let times = 0; times < 3; times++) {
      const before = changed();
      await until(at, () => changed() !== before);
    }
  });

  test('one that gives it back meanwhile makes room at once', async () => {
    const at = folder();
    const lock = takeLock(at, 'a run', { beat: 3_600_000 });
    writeFileSync(lockIn(at), elsewhere(at).replace(/"beat":\d+/, `"beat":${BEAT}`));
    const waiting = free(at);
    rmSync(lockIn(at));
    (await waiting).release();
    lock.release();
  });

  test('a stop ends the waiting', async () => {
    const at = folder();
    takeLock(at, 'a run').release();
    const lock = takeLock(at, 'a run');
    elsewhere(at);
    const stop = new AbortController();
    const waiting = free(at, stop.signal);
    stop.abort();
    await expect(waiting).rejects.toThrow('the ledger is in use by');
    lock.release();
  });

  test('who finds its lock taken over stops; who finds it removed takes it again', async () => {
    const at = folder();
    const lost: Fatal[] = [];
    const lock = takeLock(at, 'a run', { beat: 20, onLost: error => void lost.push(error) });
    const own = readFileSync(lockIn(at), 'utf8');
    rmSync(lockIn(at));
    await until(at, () => readdirSync(at).length > 0);
    expect(readFileSync(lockIn(at), 'utf8')).toBe(own);
    expect(lost).toEqual([]);
    writeFileSync(lockIn(at), JSON.stringify({ ...JSON.parse(own), token: 'another' }));
    while (lost.length === 0) await new Promise(setImmediate);
    expect(lost).toMatchObject([{ exit: 74, message: expect.stringContaining('taken over by another run') }]);
    lock.release();
    expect(readFileSync(lockIn(at), 'utf8')).toContain('"another"');
  });

  test('so does who finds the folder gone', async () => {
    const at = folder();
    const lost: Fatal[] = [];
    const lock = takeLock(at, 'a run', { beat: 20, onLost: error => void lost.push(error) });
    rmSync(at, { recursive: true });
    while (lost.length === 0) await new Promise(setImmediate);
    expect(lost[0]?.exit).toBe(74);
    lock.release();
  });
});

test('a lock is for its owner alone, whatever the umask', () => {
  const before = process.umask(0);
  try {
    const at = join(folder(), 'a', 'ledger', 'locks');
    const lock = takeLock(at, 'a run');
    const modes = [join(at, '..', '..'), join(at, '..'), at, lockIn(at)].map(
      path => statSync(path).mode & 0o777,
    );
    // what is above the ledger is not the ledger's
    expect(modes).toEqual([0o777, 0o700, 0o700, 0o600]);
    lock.release();
  } finally {
    process.umask(before);
  }
});

describe('one that stands by', () => {
  const BEAT = 100;
  const told: string[] = [];
  const waiting = (at: string, signal = new AbortController().signal) => {
    told.length = 0;
    return standBy(at, 'a run', {
      ...{ beat: BEAT, signal },
      waitsFor: holder => void told.push(`waits for ${holder}`),
      isSilent: (holder, ms) => void told.push(`${ms} ms: ${holder}`),
    });
  };
  const locksIn = (at: string): string => join(at, 'locks');
  const holderAt = (at: string) => holder(locksIn(at), { beat: BEAT });

  test('takes it from one that is killed, though it renewed it until then', async () => {
    const at = folder();
    const { child } = await holderAt(at);
    const taken = waiting(at);
    while (told.length === 0) await new Promise(setImmediate);
    child.kill('SIGKILL');
    const lock = await taken;
    expect(told).toEqual([expect.stringMatching(`waits for process ${child.pid} on `)]);
    expect(lock?.isOurs(true)).toBe(true);
    lock?.release();
    expect(readdirSync(locksIn(at))).toEqual([]);
  });

  test('takes it from one that is frozen, which finds that out when it continues', async () => {
    const at = folder();
    const { child, news } = await holderAt(at);
    child.kill('SIGSTOP');
    const lock = await waiting(at);
    expect(told[1]).toMatch(`1200 ms: process ${child.pid} on `);
    child.kill('SIGCONT');
    const [said] = await news;
    expect(said).toContain(`taken over by another run, process ${process.pid} on `);
    expect(lock?.isOurs(true)).toBe(true);
    lock?.release();
  });

  test('waits for one that lives, until it is told to end', async () => {
    const at = folder();
    const lock = takeLock(locksIn(at), 'a run', { beat: BEAT });
    const stop = new AbortController();
    const taken = waiting(at, stop.signal);
    const changed = (): bigint => statSync(lock.path, { bigint: true }).mtimeNs;
    for (let times = 0; times < 15; times++) {
      const before = changed();
      await until(locksIn(at), () => changed() !== before);
    }
    stop.abort();
    expect(await taken).toBeNull();
    expect(told).toHaveLength(1);
    lock.release();
  });

  test('a lock that is lost is looked at by who asks surely, and by others after a pause', () => {
    const at = folder();
    const lost: Fatal[] = [];
    const lock = takeLock(at, 'a run', { beat: 3_600_000, onLost: error => void lost.push(error) });
    writeFileSync(lock.path, lock.text.replace(/"token":"\w+"/, '"token":"another"'));
    expect(lock.isOurs()).toBe(true);
    expect(lock.isOurs(true)).toBe(false);
    expect(lock.isOurs()).toBe(false);
    expect(lost).toHaveLength(1);
  });
});
