/**
 * The files that stages read on a worker, which has no disk in common with the coordinator: each goes along by its path
 * below the folder that it was found in, and the options name them so.
 *
 *   agents: ../agents            →  agents: 1/agents
 *   ../agents/risk.yaml          →  1/agents/risk.yaml
 *   ../schemas/risk.schema.json  →  1/schemas/risk.schema.json, where an agent file names it
 *
 * Nothing in it says where it lay, so the same files are the same bundle on every machine.
 */
import { readdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { filesOfFolder, folderOfAgents } from '../../engine/asking/agents/load-agents.ts';
import { readYaml } from '../../engine/core/config/yaml.ts';
import { dataError, usageError } from '../../engine/core/item/failure.ts';
import { BOUNDING } from '../../engine/flow/join.ts';
import type { Values } from '../../engine/flow/options.ts';
import { POOL_OPTIONS } from '../../engine/running/open-pool.ts';
import { filesOf, type OptionsOfStage, optionsOf } from '../../engine/running/stage-options.ts';
import type { Files } from './protocol.ts';

/** Of all files of a task, before they are base64, and how many they may be. */
const MOST_BYTES = 16 * 1024 * 1024;
const MOST_FILES = 10_000;

/** Exit 64 for what is too large, 65 for what cannot be read. `base` is the folder of the pipeline file; no files: no stage reads one. */
export function bundleOf(moved: readonly OptionsOfStage[], base: string) {
  const bag = newBag();
  const row = moved.map(placed => ({ stage: placed.stage.name, options: bundled(placed, base, bag) }));
  return { row, files: bag.body() };
}

/** The options of a stage, with the paths that their files have in the bag. */
function bundled(placed: OptionsOfStage, base: string, bag: Bag): Values {
  const schemas = optionsOf(placed.stage);
  const options = travelling(placed);
  for (const { option, path, use } of filesOf(schemas, options, base)) {
    const from = resolve(path);
    if (option === 'agents') continue; // they are there without an option, too
    if (option === 'schema' && options.schema === 'legacy') continue; // a word of its own
    if (use === 'read') options[option] = bag.under(`file ${from}`, to => fileTo(bag, from, to));
    else if (use === 'read-folder')
      options[option] = bag.under(`folder ${from}`, to => folderTo(bag, from, to));
    else
      throw usageError(
        `--redis: expected ${placed.stage.name} without ${option}, found it: no worker has that`,
      );
  }
  if ('agents' in schemas) {
    const from = folderOfAgents(options.agents as string | undefined, base);
    options.agents = bag.under(`agents ${from}`, to => agentsTo(bag, from, to));
  }
  return options;
}

/** Options that do not go along: what each worker says for itself, what the coordinator does, and what no worker could do alone. */
const STAYS: ReadonlySet<string> = new Set([
  ...Object.keys(POOL_OPTIONS).filter(name => name !== 'model'),
  ...['failures', 'in-flight', 'ordered', 'grace', ...BOUNDING],
]);
/** The options that go along with a stage: those that say what is done to a line. */
function travelling({ stage, options }: OptionsOfStage): Values {
  const names = Object.keys(optionsOf(stage)).filter(name => !STAYS.has(name));
  return Object.fromEntries(
    names.filter(name => options[name] !== undefined).map(name => [name, options[name]]),
  );
}

type Bag = ReturnType<typeof newBag>;

function newBag() {
  const files = new Map<string, Buffer>();
  const known = new Map<string, string>();
  let bytes = 0;

  /** Throws where so many bytes more are too many. */
  function refuseMore(more: number, from: string): void {
    if (bytes + more <= MOST_BYTES && files.size < MOST_FILES) return;
    throw usageError(
      `--redis: expected at most ${MOST_FILES} files of ${MOST_BYTES / 1024 / 1024} MiB together that workers are to read, ` +
        `found more at ${from}: name a smaller folder`,
    );
  }
  return {
    /** What `add` puts below a folder of its own, once for the same `what`; its path. */
    under(what: string, add: (to: string) => string): string {
      const path = known.get(what) ?? add(String(known.size + 1));
      known.set(what, path);
      return path;
    },
    put(to: string, content: Buffer, from: string): void {
      refuseMore(content.length, from);
      bytes += content.length;
      files.set(to, content);
    },
    /** The same of a file, which may be of any size. */
    copy(to: string, from: string): void {
      try {
        refuseMore(statSync(from).size, from);
        this.put(to, readFileSync(from), from);
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        if (code === undefined) throw error;
        throw dataError(
          `${from}: expected a file for the workers, found ${code === 'ENOENT' ? 'none' : code}`,
        );
      }
    },
    body(): Buffer | null {
      if (files.size === 0) return null;
      const sorted = [...files].sort(([a], [b]) => (a < b ? -1 : 1));
      const entries = sorted.map(([path, content]) => [path, { base64: content.toString('base64') }]);
      const told: Files = { files: Object.fromEntries(entries) };
      return Buffer.from(JSON.stringify(told));
    },
  };
}

function fileTo(bag: Bag, from: string, to: string): string {
  const path = `${to}/${basename(from)}`;
  bag.copy(path, from);
  return path;
}

/** All regular files of a folder. A link that leads out of it names nothing that a line may name. */
function folderTo(bag: Bag, folder: string, to: string): string {
  const root = realpathSync(folder);
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort()) {
    const path = join(folder, name);
    const stat = statSync(path, { throwIfNoEntry: false });
    if (stat?.isFile() && !relative(root, realpathSync(path)).startsWith('..'))
      bag.copy(`${to}/${slashed(name)}`, path);
  }
  return to;
}

/** The agents, and the schemas that they name, as they lie to each other. */
function agentsTo(bag: Bag, folder: string, to: string): string {
  const paths = [...new Set(filesOfFolder(folder))];
  const root = paths.map(path => dirname(path)).reduce(common, folder);
  const placeOf = (path: string): string => [to, slashed(relative(root, path))].filter(Boolean).join('/');
  for (const path of paths) {
    if (path === join(folder, 'folder.yaml'))
      withoutExpected(path, content => bag.put(placeOf(path), content, path));
    else {
      if (dirname(path) === folder && path.endsWith('.yaml')) refuseAbsolute(path);
      bag.copy(placeOf(path), path);
    }
  }
  return placeOf(folder);
}

/** What `folder.yaml` says but for the columns of the input: of those the first item of all decides, which no worker sees. */
function withoutExpected(path: string, put: (content: Buffer) => void): void {
  const { expects: _expects, ...others } = readYaml(path, 'folder').value as Values;
  if (Object.keys(others).length > 0) put(Buffer.from(JSON.stringify(others)));
}

const BESIDE = ['orderings.yaml', 'defaults.yaml'];

function refuseAbsolute(path: string): void {
  if (BESIDE.includes(basename(path))) return;
  const file = readYaml(path, 'agent');
  const { schema } = file.value as { schema?: unknown };
  if (typeof schema === 'string' && isAbsolute(schema))
    throw file.complain(
      ['schema'],
      'schema: expected a path from the agent file, which goes along to the workers, found an absolute one',
    );
}

/** The folder that both are in. */
function common(one: string, other: string): string {
  let root = one;
  while (relative(root, other).startsWith('..')) root = dirname(root);
  return root;
}

const slashed = (path: string): string => path.split(sep).join('/');
