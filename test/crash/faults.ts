/** Breaking the ledger of a run at one exact place: strace does to a system call of it what a crash or a disk would. */
import { spawnSync } from 'node:child_process';

/** Whether this machine lets a process be traced; where not, what needs it is left out, and says so. */
export const canTrace = works('strace', ['-qq', '-o', '/dev/null', '-e', 'trace=none', 'true']);
/** Whether a file system of its own can be made: a small one, to be filled up. */
export const canMount = works('unshare', ['-m', 'mount', '-t', 'tmpfs', '-o', 'size=64k', 'none', '/mnt']);

function works(command: string, args: string[]): boolean {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0;
}

const WRITES = 'write,writev,pwrite64,pwritev';
const SYNCS = 'fsync,fdatasync';

export type Fault = 'kill' | 'no space' | 'failed sync' | 'lost bytes';

const INJECTED: Record<Fault, string> = {
  kill: `${WRITES}:signal=KILL`,
  'no space': `${WRITES}:error=ENOSPC`,
  'failed sync': `${SYNCS}:error=EIO`,
  // the disk says that it took ten bytes, and took none
  'lost bytes': `${WRITES}:retval=10`,
};

/** What to put before a command so that the n-th system call of the kind on any of `paths` meets the fault. */
export function meeting(fault: Fault, n: number, paths: readonly string[]): string {
  const on = paths.map(path => `-P ${path}`).join(' ');
  const [calls] = INJECTED[fault].split(':');
  return `strace -f -qq -o /dev/null ${on} -e trace=${calls} -e inject=${INJECTED[fault]}:when=${n}`;
}
