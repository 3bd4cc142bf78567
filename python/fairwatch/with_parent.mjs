// Loaded before the program: a pipe whose other end Python holds. It ends when Python does, however that dies (kill -9, a
// kernel that is restarted): the program then stops as by a signal, and lets the calls in flight finish, which are paid.
import { Socket } from 'node:net';
import { isMainThread } from 'node:worker_threads';

if (isMainThread) {
  const parent = new Socket({ fd: Number(new URL(import.meta.url).searchParams.get('fd')), writable: false });
  parent.on('error', () => {});
  parent.on('close', () => process.kill(process.pid, 'SIGTERM'));
  parent.resume().unref();
}
