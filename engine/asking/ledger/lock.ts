/**
 * One run at a time: two runs of the same thing would pay for the same answers. A lock says who holds it and
 * is renewed while it is held, by its time of change, so that a holder who cannot be looked at can be waited for: in
 * another container, on another machine. Who finds that its lock was taken over stops.
 */

import { createHash, randomBytes } from 'node:crypto';
import {
  constants,
  copyFileSync,
  linkSync,
  readdirSync,
  renameSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
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
  path: string;
  /** what it says while it is ours */
  text: string;
  /** Renews it where that is due: for who works so long that no timer comes round. */
  renew(): void;
  /**
   * Whether it is ours still. It looks where `surely` says so, or where this process may have stood still since the last
   * look: for who is about to write what the next holder writes, too. Found lost, `onLost` is called.
   */
  isOurs(surely?: boolean): boolean;
  release(): void;
}

/** A lock that was found. */
export interface Found {
  path: string;
  text: string;
  /** null where fw did not write it */
  holder: Holder | null;
}

/** Exit 64: a lock is held; `found` is null where it could not be read. */
export class Held extends Fatal {
  readonly found: Found | null;
  readonly what: Locked;
  constructor(path: string, found: Found | null, what: Locked) {
    super(
      EXIT.usage,
      `${what.name} is in use by ${wordsOf(found?.holder ?? null)}\n` +
        `wait for it or stop it; if it is gone, remove ${path}\n${what.hint}`,
    );
    this.found = found;
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
  let isLost = false;
  const timer = setInterval(renew, beat).unref();

  function renew(): void {
    if (performance.now() - renewedAt >= beat / 2) look();
  }
  function look(): void {
    if (isLost) return;
    renewedAt = performance.now();
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
    isLost = true;
    clearInterval(timer);
    const by = holderIn(readText(path) ?? '');
    const found =
      by === null ? 'removed or taken over by another run' : `taken over by another run, ${wordsOf(by)}`;
    const error = `${path}: expected the lock of this run, found it ${found}`;
    onLost?.(ioError(`${error}: this one stops, so that nothing is paid for twice`));
  }

  return {
    path,
    text: holder,
    renew,
    isOurs(surely = false) {
      if (surely || performance.now() - renewedAt >= 2 * beat) look();
      return !isLost;
    },
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
      if (found !== null && replaceStale({ path, own, holder, gone, what }, found)) return;
    }
    throw new Held(path, null, what);
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

interface Taking {
  path: string;
  /** a file that says `holder` */
  own: string;
  holder: string;
  gone: ReadonlySet<string>;
  what: Locked;
}

/**
 * Puts ours in the place of a lock whose holder is gone, in one step: one that was only frozen never finds none there, and
 * takes it again. False where it has changed meanwhile; throws `Held` where its holder may live. Of two that find the same
 * stale lock the slower one would replace the fresh lock of the faster, so replacing needs a lock of its own.
 */
function replaceStale({ path, own, holder, gone, what }: Taking, stale: string): boolean {
  const other = holderIn(stale);
  const isGone = other !== null && (gone.has(stale) || stateOf(other) === 'gone');
  if (!isGone) throw new Held(path, { path, text: stale, holder: other }, what);
  const breaking = `${path}.breaking`;
  take(breaking, holder, gone, what);
  try {
    if (readText(path) !== stale) return false;
    renameSync(own, path);
    return true;
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
