/** A worker of `--jobs` (see engine/flow/apart.ts): opens the row that it was told, then works on the pieces that come. */
import { parentPort, workerData } from 'node:worker_threads';
import type { Piece } from '../engine/flow/apart.ts';
import { fatalOf } from './fatal.ts';
import type { Message, SentPiece } from './jobs.ts';
import { openThread, type Task } from './thread.ts';

const say = (message: Message): void => parentPort?.postMessage(message);

const memories = new Map<number, SharedArrayBuffer>();
const opened = openThread(workerData as Task, message => say({ warn: message }));
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
