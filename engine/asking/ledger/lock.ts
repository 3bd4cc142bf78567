/**
 * One run at a time: two runs of the same thing would pay for the same answers. A lock says who holds it and
 * is renewed while it is held, by its time of change, so that a holder who cannot be looked at can be waited for: in
 * another container, on another machine. Who finds that its lock was taken over stops.
 */

import { createHash, randomBytes } from 'node:crypto';
import {
  closeSync,
  constants,
  copyFileSync,
  fstatSync,
  linkSync,
  openSync,
  readdirSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { makeFolder, readKept } from '../../core/files/durable.ts';
import { begunAt, isRunning, pidNamespace } from '../../core/files/process.ts';
import { EXIT, Fatal, ioError } from '../../core/item/failure.ts';

/** ms between two renewals */
const BEAT = 5_000;

export interface LockOptions {
  /** texts of locks that nobody renews any more: they may be broken, whoever holds them */
  gone?: ReadonlySet<string>;
  /** called once where the lock is somebody else's by now */
  onLost?: (error: Fatal) => void;
  /** ms between two renewals */
  beat?: number;
  /** what is locked, for messages; a ledger unless given */
  what?: Locked;
}

export interface Locked {
  name: string;
  /** what else somebody may do who finds it held */
  hint: string;
}

const LEDGER: Locked = {
  name: 'the ledger',
  hint:
    'parallel runs over one input are shards (fw run --shard 1/8), or each need another JOB_COMPLETION_INDEX or ' +
    'SLURM_ARRAY_TASK_ID, or another ledger',
};

export interface Lock {
  /** Renews it where that is due: for who works so long that no timer comes round. */
  renew(): void;
  release(): void;
}

/** Exit 64: a lock is held. Where `watch` is there its holder cannot be looked at, and may be gone. */
export class Held extends Fatal {
  readonly watch: { path: string; text: string; holder: Holder } | null;
  readonly what: Locked;
  constructor(path: string, holder: Holder | null, watch: Held['watch'], what: Locked) {
    super(
      EXIT.usage,
      `${what.name} is in use by ${wordsOf(holder)}\n` +
        `wait for it or stop it; if it is gone, remove ${path}\n${what.hint}`,
    );
    this.watch = watch;
    this.what = what;
  }
}

const OWNER_ONLY = { file: 0o600, folder: 0o700 };

/** Takes the lock of `what` in `folder`, which is in the ledger's own; throws `Held` where a run holds it. */
export function takeLock(folder: string, what: unknown, options: LockOptions = {}): Lock {
  const { gone = new Set(), onLost, beat = BEAT, what: named = LEDGER } = options;
  for (const own of [dirname(folder), folder]) makeFolder(own, OWNER_ONLY.folder);
  const name = createHash('sha256').update(JSON.stringify(what)).digest('hex').slice(0, 16);
  const path = join(folder, `${name}.lock`);
  const holder = JSON.stringify(thisProcess(beat));
  take(path, holder, gone, named);
  return held(path, holder, beat, onLost);
}

function held(path: string, holder: string, beat: number, onLost: LockOptions['onLost']): Lock {
  let renewedAt = performance.now();
  const timer = setInterval(renew, beat).unref();

  function renew(): void {
    const now = performance.now();
    if (now - renewedAt < beat / 2) return;
    renewedAt = now;
    try {
      if (isStillOurs()) utimesSync(path, new Date(), new Date());
      else lose();
    } catch (error) {
      // what cannot be reached for a moment is not lost; a folder that is gone is
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') lose();
    }
  }
  function isStillOurs(): boolean {
    const found = readText(path);
    if (found !== null) return found === holder;
    // removed, by somebody who took this run for gone: without another run there it is taken again
    writeFileSync(path, holder, { flag: 'wx', mode: OWNER_ONLY.file });
    return true;
  }
  function lose(): void {
    clearInterval(timer);
    const error = `${path}: expected the lock of this run, found it removed or taken over by another run`;
    onLost?.(ioError(`${error}: this one stops, so that nothing is paid for twice`));
  }

  return {
    renew,
    release() {
      clearInterval(timer);
      giveBack(path, holder);
    },
  };
}

const ATTEMPTS = 10;

function take(path: string, holder: string, gone: ReadonlySet<string>, what: Locked): void {
  const own = `${path}.${randomBytes(4).toString('hex')}`;
  // written beside it and linked: a lock is there with all that it says, or not at all
  try {
    writeFileSync(own, holder, { flag: 'wx', mode: OWNER_ONLY.file });
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      if (placed(own, path)) return;
      const found = readText(path);
      // a link over the network may be made, its reply lost, and then be there when it is asked for again
      if (found === holder) return;
      if (found !== null) breakStale(path, found, holder, gone, what);
    }
    throw new Held(path, null, null, what);
  } finally {
    rmSync(own, { force: true });
  }
}

/** False where there is a lock. */
function placed(own: string, path: string): boolean {
  try {
    linkSync(own, path);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return false;
    if (code === undefined || !NO_LINKS.has(code)) throw error;
  }
  try {
    copyFileSync(own, path, constants.COPYFILE_EXCL);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

/** What file systems without hard links say. A lock may then be seen half written: that is somebody's, too. */
const NO_LINKS: ReadonlySet<string> = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK']);

/**
 * Removes a lock whose holder is gone; throws `Held` where it may live. Of two that find the same stale lock the slower
 * one would remove the fresh lock of the faster, so removing needs a lock of its own.
 */
function breakStale(
  path: string,
  stale: string,
  holder: string,
  gone: ReadonlySet<string>,
  what: Locked,
): void {
  const other = holderIn(stale);
  const state = other === null ? 'lives' : gone.has(stale) ? 'gone' : stateOf(other);
  const isRenewed = state === 'unseen' && other?.beat !== undefined;
  if (state !== 'gone')
    throw new Held(path, other, isRenewed ? { path, text: stale, holder: other as Holder } : null, what);
  const breaking = `${path}.breaking`;
  take(breaking, holder, gone, what);
  try {
    if (readText(path) === stale) rmSync(path, { force: true });
  } finally {
    giveBack(breaking, holder);
  }
}

function giveBack(path: string, holder: string): void {
  if (readText(path) === holder) rmSync(path, { force: true });
}

/**
 * Who holds a lock, and whether that process still lives. It can be looked at by its id on this host, since this boot
 * and within this PID namespace; ids are used again, so its start counts too. Of any other process only the lock itself
 * tells: its holder renews it.
 */
export interface Holder {
  host: string;
  pid: number;
  /** of the machine's last start; null where the system does not say */
  boot: string | null;
  /** the PID namespace, such as `pid:[4026531836]`: containers have their own; null where the system has none */
  namespace?: string | null;
  /** of the process, in clock ticks after boot; null where the system does not say */
  begun: string | null;
  since: string;
  /** ms between two renewals of the lock; absent in locks of version 0.1.0, which were not renewed */
  beat?: number;
  /** tells two locks of one process apart */
  token: string;
}

function thisProcess(beat: number): Holder {
  return {
    host: hostname(),
    pid: process.pid,
    boot: bootId(),
    namespace: pidNamespace(),
    begun: begunAt(process.pid),
    since: new Date().toISOString(),
    beat,
    token: randomBytes(8).toString('hex'),
  };
}

/** `unseen` cannot be looked at from here. */
export function stateOf({ host, pid, boot, namespace, begun, beat }: Holder): 'lives' | 'gone' | 'unseen' {
  if (host !== hostname()) return 'unseen';
  // another start of this machine, or another machine that has the same name
  if (boot !== bootId()) return beat === undefined ? 'gone' : 'unseen';
  const own = pidNamespace();
  if (namespace !== undefined && namespace !== own) return 'unseen';
  return isRunning({ host, namespace: own, pid, begun }) ? 'lives' : 'gone';
}

/** null where the text is no lock that fw wrote. */
function holderIn(text: string): Holder | null {
  try {
    const holder = JSON.parse(text) as Holder;
    return typeof holder?.host === 'string' && Number.isInteger(holder.pid) ? holder : null;
  } catch {
    return null;
  }
}

export function wordsOf(holder: Holder | null): string {
  return holder ? `process ${holder.pid} on ${holder.host}, since ${holder.since}` : 'somebody unknown';
}

/** Who holds the locks in a folder; none where there is none. */
export function holdersIn(folder: string): Holder[] {
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch {
    return [];
  }
  const texts = names.filter(name => name.endsWith('.lock')).map(name => readText(join(folder, name)));
  return texts.flatMap(text => (text === null ? null : holderIn(text)) ?? []);
}

const bootId = (): string | null => readText('/proc/sys/kernel/random/boot_id')?.trim() ?? null;

export function readText(path: string): string | null {
  try {
    return readKept(path).toString();
  } catch {
    return null;
  }
}

/**
 * Waiting for a lock whose holder cannot be looked at. Its time of change is compared with itself and never with a
 * clock of this machine; who does not renew it for twelve beats is gone. One that was only suspended finds its lock
 * taken over when it continues, and stops. beats without a renewal after which a holder is gone
 */
const SILENT = 12;
/** ms; what somebody else wrote into a lock is no reason to wait for days */
const LONGEST_BEAT = 60_000;

export interface Watching {
  warn: (message: string) => void;
  signal: AbortSignal;
}

/** `open` is handed the texts of locks whose holders are gone, and called again where it found one that may be. */
export async function whenFree<T>(
  open: (gone: ReadonlySet<string>) => T,
  { warn, signal }: Watching,
): Promise<T> {
  const gone = new Set<string>();
  for (;;) {
    try {
      return open(gone);
    } catch (error) {
      if (!(error instanceof Held) || error.watch === null || gone.has(error.watch.text)) throw error;
      const { path, text, holder } = error.watch;
      const { name } = error.what;
      const beat = Math.min(LONGEST_BEAT, Math.max(1, Number(holder.beat) || 0));
      warn(
        `${name} is locked by ${wordsOf(holder)}, which cannot be checked from this machine; ` +
          `waiting ${(SILENT * beat) / 1000} s to see whether it is alive`,
      );
      if (await isRenewed(path, text, beat, signal)) throw error;
      gone.add(text);
    }
  }
}

/** ms in which a lock that is held for a moment is asked for again, and between two times at most */
const MOMENT = 10_000;
const AGAIN = 100;

/** For what holds a lock no longer than it takes to write a file: the others are waited for, each in its turn. */
export async function inTurn<T>(open: () => T): Promise<T> {
  const until = performance.now() + MOMENT;
  for (;;) {
    try {
      return open();
    } catch (error) {
      if (!(error instanceof Held) || performance.now() >= until) throw error;
      await pause(AGAIN * Math.random());
    }
  }
}

/** Holds a folder of this process alone, waiting as `whenFree` does; `hint` is for who finds it held. */
export function lockFolder(
  folder: string,
  as: string,
  { hint, onLost, ...watching }: Watching & Pick<LockOptions, 'onLost'> & { hint: string },
): Promise<Lock> {
  const what = { name: folder, hint };
  return whenFree(gone => takeLock(join(folder, 'locks'), as, { gone, what, onLost }), watching);
}

async function isRenewed(path: string, text: string, beat: number, signal: AbortSignal): Promise<boolean> {
  const before = changedAt(path);
  for (let beats = 0; beats < SILENT; beats++) {
    await pause(beat, undefined, { signal }).catch(() => {});
    if (signal.aborted) return true;
    // another text: it is another's by now, or was given back, and who opens finds out
    if (readText(path) !== text) return false;
    if (changedAt(path) !== before) return true;
  }
  return false;
}

/** In ns; by way of opening it, since network file systems ask the server only then. Null where it is not there. */
function changedAt(path: string): bigint | null {
  try {
    const file = openSync(path, 'r');
    try {
      return fstatSync(file, { bigint: true }).mtimeNs;
    } finally {
      closeSync(file);
    }
  } catch {
    return null;
  }
}
