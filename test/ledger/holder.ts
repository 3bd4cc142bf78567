/**
 * A process that holds a lock: takes that of `what` in the folder, says `held` or why not on a line of stdout, and
 * keeps it until its stdin ends, renewed every `beat` ms; a second line where it has lost it. With a time (ms since 1970) it waits for that first, so that several begin at once.
 */
import { takeLock } from '../../engine/asking/ledger/lock.ts';

const [folder = '', what = '', at = '0', beat = '5000'] = process.argv.slice(2);
while (Date.now() < Number(at)) {
  // spinning: a timer is late by a millisecond, in which another has begun and ended
}
try {
  const onLost = ({ message }: Error): void => void process.stdout.write(`${message}\n`);
  const { release } = takeLock(folder, what, { beat: Number(beat), onLost });
  process.stdout.write('held\n');
  process.stdin.resume();
  process.stdin.on('end', release);
} catch (error) {
  process.stdout.write(`${(error as Error).message.split('\n', 1)[0]}\n`);
}
