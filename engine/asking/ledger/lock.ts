/**
 * One run at a time: two runs of the same thing would pay for the same answers. A lock says who holds it (holder.ts) and
 * is renewed while it is held, by its time of change, so that a holder who cannot be looked at can be waited for: in
 * another container, on another machine. Who finds that its lock was taken over stops.
 */
import { createHash, randomBytes } from 'node:crypto';
import { constants, copyFileSync, linkSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { makeFolder } from '../../core/files/durable.ts';
import { EXIT, Fatal, ioError } from '../../core/item/failure.ts';
import { type Holder, holderIn, readText, stateOf, thisProcess, wordsOf } from './holder.ts';

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
