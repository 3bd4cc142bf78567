/** A disk that is nearly full: new work is refused first, then batches wait, chat goes on; all comes back by itself. */
import { expect, onTestFinished, test } from 'vitest';
import { AGAIN, Holds } from '../../products/serve/batches/waiting.ts';
import { type Disk, Room } from '../../products/serve/keep/room.ts';
import { type Ask, serve } from '../pool/serving.ts';
import { begin, ENDPOINT, lineOf, put, reached } from './batching.ts';
import { served } from './serving.ts';

const GB = 1e9;

test('the reserve, and what is said where it is crossed', () => {
  const said: string[] = [];
  let disk: Disk = { free: 50 * GB, size: 100 * GB };
  const room = new Room({ data: 'DIR', reserve: null, say: line => said.push(line), look: () => disk });
  onTestFinished(() => room.stop());
  const at = (free: number): string => {
    disk = { ...disk, free };
    room.look();
    return room.state;
  };
  expect(room.reserve).toBe(4 * 2 ** 30); // 5 % would be more
  const states = [4.4, 4.2, 4.4, 4.8, 2.2, 2.1, 3, 4.2, 4.3, 4.8].map(gb => at(gb * GB));
  expect(states).toEqual(['ok', 'low', 'low', 'ok', 'low', 'full', 'full', 'full', 'low', 'ok']);
  expect(said).toHaveLength(6);
  expect(said[0]).toBe(
    'the disk of DIR has 4.2 GB left, less than the reserve of 4.29 GB: new files and batches are refused (507); ' +
      'batches that run go on until it is half of that, live requests go on; delete files or ended batches, prune the record, or make room',
  );
  expect(said.at(-1)).toBe('the disk of DIR has 4.8 GB left: files and batches are taken again');
  disk = { free: 3e6, size: 4e6 };
  room.look();
  expect([room.reserve, room.state]).toEqual([2e5, 'ok']);
  // what would go below the reserve is refused before it comes
  expect(() => room.refuse(2.9e6)).toThrow('nearly full');
  room.refuse(2.7e6);
  // what batches need to go on is there on a small disk, too
  expect([room.isBack, room.lack, at(5e4), room.isBack]).toEqual([...[true, '', 'full', false]]);
  expect(room.why).toBe(
    'the disk is full but for 50 kB, which are kept for live requests; batches go on once 200 kB are free',
  );
  expect([at(3e5), room.isBack]).toEqual(['ok', true]);
});

test('a reserve of nearly nothing leaves batches 32 MiB', () => {
  let disk: Disk = { free: 1e3, size: 100 * GB };
  const room = new Room({ data: 'DIR', reserve: 1e6, say: () => {}, look: () => disk });
  onTestFinished(() => room.stop());
  disk = { ...disk, free: 33e6 };
  room.look();
  expect([room.state, room.isBack, room.lack]).toEqual([
    ...['ok', false, '; batches go on once 33.6 MB are free'],
  ]);
});

test('a batch that was paused for its ledger goes on where those that run do, one that was paused for the disk at the reserve', () => {
  let disk: Disk = { free: 50 * GB, size: 100 * GB };
  const room = new Room({ data: 'DIR', reserve: 2 * GB, say: () => {}, look: () => disk });
  onTestFinished(() => room.stop());
  const holds = new Holds({ room, say: () => {} } as never);
  holds.pause({ id: 'ledger', owner: 'o' }, 'part-1.ndjson: line 7 is damaged');
  holds.pause({ id: 'disk', owner: 'o' }, 'ENOSPC: no space left on device, write');
  const may = (free: number): boolean[] => {
    disk = { ...disk, free };
    room.look();
    return ['ledger', 'disk'].map(id => holds.mayGoOn(id, performance.now() + AGAIN + 1));
  };
  expect([may(1.5 * GB), may(2 * GB)]).toEqual([
    [true, false],
    [true, true],
  ]);
  expect([may(0.5 * GB), may(1.5 * GB)]).toEqual([
    [false, false], // full, and so until the reserve is there
    [false, false],
  ]);
  expect(holds.mayGoOn('ledger', 0)).toBe(false);
});

test('new work is refused, then batches wait, chat goes on, and all comes back', async () => {
  let disk: Disk = { free: 50 * GB, size: 100 * GB };
  let isHeld = false;
  let answered = 0;
  const held: Ask[] = [];
  const model = await serve(one => {
    if (isHeld && one.body.includes('Say r-')) return void held.push(one);
    one.answer('yes');
    isHeld ||= one.body.includes('Say r-') && ++answered === 8;
  });
  const server = await served({
    ...{ endpoints: [model.url], settings: { diskReserve: 2 * GB }, limit: 4, disk: () => disk },
  });
  const openai = server.client();
  const input = await put(openai, lineOf('a', { model: 'm' }));
  const create = () =>
    openai.batches.create({ input_file_id: input, endpoint: ENDPOINT, completion_window: '24h' });
  const ready = async () => {
    const reply = await fetch(`${server.url}/ready`);
    return [reply.status, ((await reply.json()) as { disk: string }).disk];
  };
  const chat = () =>
    openai.chat.completions.create({ model: 'm', messages: [{ role: 'user', content: 'x' }] });
  const is = (state: string) => expect.poll(async () => (await ready())[1], { interval: 20 }).toBe(state);

  disk = { ...disk, free: 1.5 * GB };
  await is('low');
  for (const refused of [create(), put(openai, 'x')])
    await expect(refused).rejects.toMatchObject({ status: 507, code: 'insufficient_storage' });
  await chat();
  expect(await ready()).toEqual([200, 'low']);
  disk = { ...disk, free: 50 * GB };
  await is('ok');

  const lines = Array.from({ length: 40 }, (_, n) => lineOf(`r-${n}`, { model: 'm' }));
  const { id } = await begin(openai, lines.join('\n'));
  await reached(openai, id, one => (one.request_counts?.completed ?? 0) > 3);
  disk = { ...disk, free: 0.5 * GB };
  await is('full');
  const said = (text: string) =>
    expect.poll(() => server.said.some(line => line.includes(text)), { interval: 20 }).toBe(true);
  await said(`${id} is paused, and is tried again: the disk is full but for 500 MB`);
  isHeld = false;
  for (const one of held) one.answer('yes'); // what was under way is finished
  await expect
    .poll(async () => await (await fetch(`${server.url}/metrics`)).text(), { interval: 50 })
    .toMatch(/^fw_batches_paused 1$/m);
  await expect
    .poll(async () => {
      const before = model.asked;
      await chat();
      return model.asked - before;
    })
    .toBe(1); // the batch asks nothing
  expect((await openai.batches.retrieve(id)).status).toBe('in_progress');
  disk = { ...disk, free: 50 * GB };
  expect((await reached(openai, id)).request_counts).toMatchObject({ completed: 40, failed: 0 });
});
