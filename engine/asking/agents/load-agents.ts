/**
 * The agents folder: one <key>.yaml for each agent; orderings.yaml, defaults.yaml and folder.yaml beside them. Everything that a
 * study says about its agents comes from these files; the engine knows none of it.
 */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { type Defaults, readDefaults } from '../../answers/defaults.ts';
import { packageRoot } from '../../core/config/package.ts';
import { readYaml, type YamlFile } from '../../core/config/yaml.ts';
import { dataError, usageError } from '../../core/item/failure.ts';
import type { JsonObject } from '../../core/json/pointer.ts';
import { type Agent, agentOf } from './agent-file.ts';
import { introduce } from './form.ts';

export type { Agent } from './agent-file.ts';

export interface Agents {
  folder: string;
  /** every agent, the synthesis too */
  byKey: Map<string, Agent>;
  /** those of role `agent`, in the order of the list `default` (its first ordering), else of their file names */
  agents: Agent[];
  synthesis?: Agent;
  /** the named lists, as keys */
  orderings: Map<string, string[][]>;
  /** null-fix's defaults */
  defaults?: Defaults;
  /** key, short name, display name or agent_name → key */
  names: Map<string, string>;
  /** a JSON Schema of the `input` of items, from folder.yaml at `path` */
  expects?: { path: string; schema: JsonObject };
  /** texts of errors and placeholders in an answer are none (folder.yaml: own_words) */
  ownWords?: boolean;
  /** what is passed on of an answer, from folder.yaml: keys of a verdict, and keys that name the agent */
  passing?: { verdict: string[]; names?: string[] };
  naming?: Naming;
}

/** How a run came by its folder of agents. */
export interface Naming {
  /** what named the folder for this run (`--agents`, `FW_AGENTS`), so that it is meant; null where nobody did */
  by: string | null;
  /** what names a folder for a run, up to its path */
  option: string;
  /** where else they may be named, after "or" */
  else: string;
}

const BESIDE_AGENTS = ['orderings.yaml', 'defaults.yaml', 'folder.yaml'];

/**
 * The agents folder: the option, else FW_AGENTS, else ./agents if it holds YAML files, else the packaged FairWatch.
 * An option is resolved from `base` (the pipeline file's folder, or the current one), the rest from the current folder.
 * Exit 64 where a folder that was named does not exist.
 */
export function folderOfAgents(
  option: string | undefined,
  base: string,
  here: { folder: string; env: NodeJS.ProcessEnv } = { folder: process.cwd(), env: process.env },
): string {
  if (option !== undefined) return existing(resolve(base, option), '--agents');
  if (here.env.FW_AGENTS) return existing(resolve(here.folder, here.env.FW_AGENTS), 'FW_AGENTS');
  const beside = join(here.folder, 'agents');
  if (isFolder(beside) && yamlNames(beside).length > 0) return beside;
  return packagedAgents();
}

export function packagedAgents(): string {
  return join(packageRoot(), 'pipelines', 'fairwatch', 'agents');
}

function existing(folder: string, from: string): string {
  if (isFolder(folder)) return folder;
  throw usageError(`${from}: expected a folder of agent files, found none at ${folder}`);
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

function yamlNames(folder: string): string[] {
  return readdirSync(folder)
    .filter(name => /\.ya?ml$/i.test(name) && !name.startsWith('.'))
    .sort();
}

/** Reads a whole agents folder. Exit 65, with file:line:column where there is one, for anything that does not fit. */
export function loadAgents(folder: string): Agents {
  const loaded = loadAgentFiles(folder);
  const files = yamlNames(folder);
  if (files.includes('orderings.yaml'))
    addOrderings(loaded, readYaml(join(folder, 'orderings.yaml'), 'orderings'));
  if (files.includes('defaults.yaml')) loaded.defaults = readDefaults(join(folder, 'defaults.yaml'));
  if (files.includes('folder.yaml')) {
    const { path, value } = readYaml(join(folder, 'folder.yaml'), 'folder');
    const { expects, passing } = value as FolderFile;
    if (expects) loaded.expects = { path, schema: expects };
    if (passing) loaded.passing = passing;
  }
  return loaded;
}

/** The files that reading the folder reads; where an agent cannot be read, those of the folder itself. */
export function filesOfFolder(folder: string): string[] {
  const own = yamlNames(folder).map(name => join(folder, name));
  try {
    return [...own, ...[...loadAgentFiles(folder).byKey.values()].map(({ schemaPath }) => schemaPath)];
  } catch {
    return own; // who asks the agents says what is wrong with it
  }
}

/** The agents alone, in the order of their file names, for who asks nobody: to read YAML costs more than all the rest of a start. */
export function loadAgentFiles(folder: string): Agents {
  const files = yamlNames(folder);
  const misnamed = files.find(name => !name.endsWith('.yaml'));
  if (misnamed !== undefined) {
    throw dataError(`${join(folder, misnamed)}: expected a name that ends in .yaml; rename the file`);
  }
  const loaded: Agents = { folder, byKey: new Map(), agents: [], orderings: new Map(), names: new Map() };
  for (const name of files.filter(name => !BESIDE_AGENTS.includes(name))) {
    addAgent(loaded, readYaml(join(folder, name), 'agent'));
  }
  if (loaded.agents.length === 0) {
    throw dataError(`${folder}: expected agent files (<key>.yaml with role: agent), found none`);
  }
  let keys = ['agent_name'];
  if (files.includes('folder.yaml')) {
    const { own_words, passing } = readYaml(join(folder, 'folder.yaml'), 'folder').value as FolderFile;
    loaded.ownWords = own_words === true;
    keys = [...new Set([...keys, ...(passing?.names ?? [])])];
  }
  introduce([...loaded.byKey.values()], keys);
  return loaded;
}

interface FolderFile {
  passing?: { verdict: string[]; names?: string[] };
  expects?: JsonObject;
  own_words?: boolean;
}

function addAgent(loaded: Agents, file: YamlFile): void {
  const agent = agentOf(file);
  for (const field of ['key', 'short', 'display', 'agent_name'] as const) {
    const name = agent[field];
    if (name === undefined) continue;
    const owner = loaded.names.get(name);
    if (owner !== undefined && owner !== agent.key) {
      throw file.complain(
        [field],
        `${field}: expected a name of its own, found '${name}', which is ${owner}'s`,
      );
    }
    loaded.names.set(name, agent.key);
  }
  loaded.byKey.set(agent.key, agent);
  if (agent.role === 'agent') loaded.agents.push(agent);
  else if (loaded.synthesis === undefined) loaded.synthesis = agent;
  else {
    throw file.complain(
      ['role'],
      `role: expected one synthesis in the folder, found a second beside ${loaded.synthesis.key}`,
    );
  }
}

function addOrderings(loaded: Agents, file: YamlFile): void {
  for (const [list, orderings] of Object.entries(file.value as Record<string, string[][]>)) {
    if (loaded.names.has(list)) {
      throw file.complain([list], `expected a list that is not named like an agent, found '${list}'`, 'key');
    }
    const resolved = orderings.map((names, index) =>
      names.map((name, position) => {
        const key = loaded.names.get(name);
        const problem =
          key === undefined
            ? `an agent of this folder (${loaded.agents.map(agent => agent.key).join(', ')})`
            : loaded.byKey.get(key)?.role === 'synthesis'
              ? 'an agent, not the synthesis'
              : names.findIndex(earlier => loaded.names.get(earlier) === key) < position
                ? 'every agent once'
                : undefined;
        if (problem !== undefined) {
          throw file.complain([list, index, position], `${list}: expected ${problem}, found '${name}'`);
        }
        return key!;
      }),
    );
    loaded.orderings.set(list, resolved);
  }
  const first = loaded.orderings.get('default')?.[0];
  if (first === undefined) return;
  const rank = (key: string): number => (first.includes(key) ? first.indexOf(key) : first.length);
  loaded.agents.sort((a, b) => rank(a.key) - rank(b.key));
}

/** null-fix's defaults: the file that was named, else defaults.yaml of the agents folder; none is an empty map. */
export function defaultsOf(options: { defaults?: string; agents?: string }, base: string): Defaults {
  const path =
    options.defaults === undefined
      ? join(folderOfAgents(options.agents, base), 'defaults.yaml')
      : resolve(base, options.defaults);
  if (options.defaults === undefined && !existsSync(path)) return new Map();
  return readDefaults(path);
}
