/** A thread of `--jobs` (see engine/flow/apart.ts): opens the row that it was told, then works on the pieces that come. */
import { parentPort, workerData } from 'node:worker_threads';
import { newAccount } from '../engine/flow/account.ts';
import type { Piece } from '../engine/flow/apart.ts';
import { usageError } from '../engine/flow/failure.ts';
import type { Placed } from '../engine/flow/join.ts';
import { openPieces } from '../engine/flow/piece.ts';
import { rowOf, type Tools } from '../engine/flow/stage.ts';
import { stages } from '../stages/index.ts';
import { fatalOf } from './fatal.ts';
import type { Message, SentPiece, Task } from './jobs.ts';
import { namer } from './target.ts';

const say = (message: Message): void => parentPort?.postMessage(message);

async function open({ row, base, target, silent }: Task): ReturnType<typeof openPieces> {
  const never = new AbortController().signal;
  const tools: Tools = {
    base,
    files: [],
    signal: never, // whoever hands out the pieces stops
    asking: never,
    account: newAccount('thread', true),
    started: new Date(),
    warn: message => say({ warn: message }),
    pool: () => Promise.reject(usageError('expected stages that ask nothing')),
  };
  const placed: Placed[] = [];
  for (const { name, options } of row) {
    const loaded = await stages[name]?.();
    if (loaded === undefined) throw new Error(`no stage '${name}'`);
    for (const stage of rowOf(loaded.default)) placed.push({ stage, options, tools });
  }
  return openPieces(placed, silent ? undefined : target === undefined ? null : namer(target, row, base));
}

const memories = new Map<number, SharedArrayBuffer>();
const opened = open(workerData as Task);
// what is no ending of ours is a bug, and told with its stack
const fail = (error: unknown): void => {
  const { exit, message } = fatalOf(error);
  say({ fatal: { exit, message } });
};
let last: Promise<void> = opened.then(() => say({ open: true })).catch(fail);
parentPort?.on('message', (sent: SentPiece) => {
  const piece = received(sent);
  last = last.then(async () => say({ done: await (await opened)(piece) })).catch(fail);
});

function received({ bytes, ...piece }: SentPiece): Piece {
  if (bytes === undefined) return piece;
  const { number, length, memory = memories.get(number) } = bytes;
  if (memory === undefined) throw new Error(`no block ${number} was sent`);
  memories.set(number, memory);
  return { ...piece, bytes: { block: { number, memory }, length } };
}
