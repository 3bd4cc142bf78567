/**
 * What a worker keeps, all of it below one folder that it has for itself:
 *
 *   WORK/ledger/            what was asked and answered for a work: a worker that comes back asks nothing twice
 *   files/SHA256/           files that a task reads, once for all works that have the same
 *   parts/WORK.ROOT.PART/   the lines of a part in hand, and its result until the coordinator has it
 */
import { createHash, randomBytes } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { lockFolder } from '../../../engine/asking/ledger/lock-waiting.ts';
import { parseYaml } from '../../../engine/core/config/yaml.ts';
import { makeFolder, OWNER_ONLY, openNew, readKept } from '../../../engine/core/files/durable.ts';
import { writeWhole } from '../../../engine/core/files/ndjson-out.ts';
import type { Fatal } from '../../../engine/core/item/failure.ts';
import { isObject } from '../../../engine/core/json/pointer.ts';
import { show } from '../../../engine/core/json/show.ts';
import type { PartName } from '../protocol.ts';
import { BadOrder, isInside, readPartName } from './task.ts';

interface FolderOptions {
  say(message: string): void;
  /** called where the folder is another process's by now */
  onLost(error: Fatal): void;
  signal: AbortSignal;
}

const MOST_FILES = 10_000;
const UNFINISHED = '.unfinished';

export type WorkFolder = Awaited<ReturnType<typeof openFolder>>;

/** Exit 64 where another worker has the folder, 74 where it cannot be written. */
export async function openFolder(data: string, { say, onLost, signal }: FolderOptions) {
  const [files, parts] = [join(data, 'files'), join(data, 'parts')];
  const none = join(files, 'none');
  for (const path of [data, files, none, parts]) makeFolder(path, OWNER_ONLY.folder);
  closeToOthers(data, say);
  const hint = 'a folder has one worker at a time; give each its own: --data DIR';
  const lock = await lockFolder(data, 'work', { hint, onLost, warn: say, signal });
  for (const name of readdirSync(files))
    if (name.endsWith(UNFINISHED)) rmSync(join(files, name), { recursive: true, force: true });
  const pathOf = ({ work, root, part }: PartName): string => join(parts, `${work}.${root}.${part}`);

  return {
    /** of the ledger of a work */
    ledgerOf(work: string): string {
      const path = join(data, work, 'ledger');
      // whoever held it is gone: the folder is ours
      rmSync(join(path, 'locks'), { recursive: true, force: true });
      return path;
    },
    /** The folder with the files of this hash, an empty one for none; `fetch` is called where they are not there yet. */
    async filesOf(sha256: string | null, fetch: () => Promise<Buffer>): Promise<string> {
      if (sha256 === null) return none;
      const path = join(files, sha256);
      if (existsSync(path)) return path;
      const body = await fetch();
      const found = createHash('sha256').update(body).digest('hex');
      if (found !== sha256) throw new BadOrder(`expected files with the SHA-256 ${sha256}, found ${found}`);
      const beside = join(files, `${sha256}.${randomBytes(4).toString('hex')}${UNFINISHED}`);
      try {
        unpack(body, beside);
        renameSync(beside, path);
      } finally {
        rmSync(beside, { recursive: true, force: true });
      }
      return path;
    },
    /** Keeps the lines of a part; returns the path of the file that they are in. */
    putLines(name: PartName, lines: Buffer): string {
      makeFolder(pathOf(name), OWNER_ONLY.folder);
      const path = join(pathOf(name), 'lines.ndjson');
      writeNew(path, lines);
      return path;
    },
    /** Keeps the result of a part until `drop`. */
    putResult(name: PartName, body: Buffer): void {
      const path = join(pathOf(name), 'result.ndjson');
      makeFolder(pathOf(name), OWNER_ONLY.folder);
      writeNew(path + UNFINISHED, body);
      renameSync(path + UNFINISHED, path);
    },
    drop: (name: PartName): void => rmSync(pathOf(name), { recursive: true, force: true }),
    /** Results that an earlier process could not hand in; what else it had in hand is forgotten. */
    unsent(): { name: PartName; body: Buffer }[] {
      const left: { name: PartName; body: Buffer }[] = [];
      for (const each of readdirSync(parts)) {
        const name = nameIn(each);
        const path = join(parts, each, 'result.ndjson');
        const body = name === null ? null : resultIn(path);
        if (name !== null && body !== null) left.push({ name, body });
        else rmSync(join(parts, each), { recursive: true, force: true });
      }
      return left;
    },
    close: () => lock.release(),
  };
}

/** A folder that was there before may be open to others, who could put others in the place of what is in it. */
function closeToOthers(data: string, say: (message: string) => void): void {
  try {
    chmodSync(data, OWNER_ONLY.folder);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    say(
      `${data} cannot be closed to other users (${code}): who may write there can change what this worker keeps`,
    );
  }
}

function writeNew(path: string, bytes: Buffer): void {
  const fd = openNew(path);
  try {
    writeWhole(fd, bytes, path);
  } finally {
    closeSync(fd);
  }
}

/** Null where there is none, or something else has its name. */
function resultIn(path: string): Buffer | null {
  try {
    return readKept(path);
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (NO_FILE.has(code)) return null;
    throw error;
  }
}

const NO_FILE = new Set(['ENOENT', 'ENOTDIR', 'EISDIR', 'EINVAL', 'ELOOP', 'ENXIO']);

function nameIn(folder: string): PartName | null {
  const [, work, root, part] = /^(.+)\.(\d{1,15})\.(\d{1,15})$/.exec(folder) ?? [];
  try {
    return readPartName({ work, root: Number(root), part: Number(part) });
  } catch {
    return null;
  }
}

function unpack(body: Buffer, to: string): void {
  let files: unknown;
  try {
    const value: unknown = JSON.parse(body.toString());
    files = isObject(value) ? value.files : undefined;
  } catch {
    files = undefined;
  }
  if (!isObject(files) || Object.keys(files).length > MOST_FILES)
    throw new BadOrder(`expected at most ${MOST_FILES} files by their paths, found ${show(files)}`);
  mkdirSync(to, { mode: OWNER_ONLY.folder });
  for (const [path, file] of Object.entries(files)) {
    if (!isInside(path))
      throw new BadOrder(`expected a path among the files of the task, found ${show(path)}`);
    if (!isObject(file) || typeof file.base64 !== 'string')
      throw new BadOrder(`files: expected the bytes of ${show(path)} in base64, found ${show(file)}`);
    const bytes = Buffer.from(file.base64, 'base64');
    if (/\.ya?ml$/i.test(path)) refuseOutside(bytes, path);
    try {
      makeFolder(dirname(join(to, path)), OWNER_ONLY.folder);
      writeFileSync(join(to, path), bytes, { mode: OWNER_ONLY.file, flag: 'wx' });
    } catch (error) {
      const { code = '' } = error as NodeJS.ErrnoException;
      if (!UNFIT.has(code)) throw error;
      throw new BadOrder(`files: expected a path that a file may have, found ${show(path)} (${code})`);
    }
  }
}

/** of paths that do not go together: a file that is the folder of another, two that differ in capitals */
const UNFIT = new Set(['EEXIST', 'ENOTDIR', 'EISDIR', 'ENAMETOOLONG', 'EINVAL', 'EILSEQ']);

/** A file of ours in YAML has at most so many bytes; a larger one is never read. */
const MOST_YAML = 1 << 20;

/** An agent file names its schema by a path: a file of this machine would be read, and told to a model. */
function refuseOutside(bytes: Buffer, path: string): void {
  if (bytes.length > MOST_YAML) return;
  const refuse = (words: string): BadOrder => new BadOrder(`${path}: ${words}`);
  const document = parseYaml(bytes.toString(), (_at, message) => refuse(message));
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: 100 });
  } catch (error) {
    throw refuse((error as Error).message);
  }
  const schema = isObject(value) ? value.schema : undefined;
  if (typeof schema !== 'string') return;
  const where = posix.join(posix.dirname(path), schema);
  if (posix.isAbsolute(schema) || !isInside(where))
    throw refuse(`schema: expected a path among the files of the task, found ${show(schema)}`);
}
