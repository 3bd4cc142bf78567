/**
 * A worker as a process of its own, to be killed or stopped: takes one part after the other, holds each until a line comes
 * in, and prints what happens. `ours`, or a plain BullMQ Worker with BullMQ's `defaults`.
 *
 *   node child.cjs ours|defaults URL LOCK_MS
 */
import { createInterface } from 'node:readline';
import { Worker } from 'bullmq';
import { openTaker } from '../../products/workers/taker.ts';
import { QUEUE } from './queue-name.ts';

const [kind, url = '', lock = ''] = process.argv.slice(2);
const print = (text: string): void => void process.stdout.write(`${text}\n`);
const lines = createInterface(process.stdin)[Symbol.asyncIterator]();

async function ours(): Promise<void> {
  const taker = await openTaker({
    url,
    prefix: 'fw',
    name: `child/${process.pid}`,
    lock: Number(lock),
    say: print,
  });
  print('ready');
  for (;;) {
    const taken = await taker.take([QUEUE], new AbortController().signal);
    if (taken === null) return;
    print(`has ${taken.id}`);
    await lines.next();
    await taken.done();
    print(`done ${taken.id}`);
  }
}

async function defaults(): Promise<void> {
  const hold = async (job: { id?: string }) => {
    print(`has ${job.id}`);
    await lines.next();
    return 'a result';
  };
  const times = { lockDuration: Number(lock), stalledInterval: Number(lock) / 2 };
  const worker = new Worker(QUEUE, hold, { connection: { url }, prefix: 'fw', ...times });
  worker.on('error', error => print(`error ${error.message}`));
  worker.on('completed', job => print(`completed ${job.id}`));
  worker.on('failed', (job, error) => print(`failed ${job?.id}: ${error.message}`));
  await worker.waitUntilReady();
  print('ready');
}

void (kind === 'ours' ? ours() : defaults());
