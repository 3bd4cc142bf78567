/** The options of every stage that asks agents, and what they become. */

import { resolve } from 'node:path';
import { compileSchema } from '../../answers/schema.ts';
import type { RecordedAnswer } from '../../core/item/call.ts';
import type { Code } from '../../core/item/codes.ts';
import { ItemFailure, usageError } from '../../core/item/failure.ts';
import type { Item } from '../../core/item/item.ts';
import { counted } from '../../core/item/wording.ts';
import { parsePointer } from '../../core/json/pointer.ts';
import { summarise } from '../../core/json/show.ts';
import { grouped, namesIn, type OptionSchemas, type OptionsOf } from '../../flow/options.ts';
import type { Tools } from '../../flow/stage.ts';
import { type Chain, chainOf } from './ask-chain.ts';
import { beginsOfItem } from './begins.ts';
import { checkOf, readReply } from './form.ts';
import { type Agents, folderOfAgents, loadAgents, packagedAgents } from './load-agents.ts';
import type { Pointer } from './question.ts';
import { type Guided, openingsOf } from './request-body.ts';

export const AGENTS_OPTION = {
  agents: {
    type: 'string',
    file: 'read-folder',
    from: 'base',
    description:
      'Folder of agent files. Default: FW_AGENTS, else ./agents, else the packaged FairWatch agents.',
  },
} as const satisfies OptionSchemas;

export const ASK_OPTIONS = grouped('Asking', {
  ...AGENTS_OPTION,
  attempts: {
    type: 'integer',
    minimum: 1,
    maximum: 20,
    default: 3,
    description: 'Maximum attempts per question to get an answer that fits the schema.',
  },
  'on-invalid': {
    type: 'string',
    enum: ['fail', 'default'],
    default: 'fail',
    description:
      "What to do when no answer fits: fail the item, or fill in null-fix's defaults (rung defaulted).",
  },
  guided: {
    type: 'string',
    enum: ['on', 'off', 'older'],
    default: 'on',
    description:
      'Constrain decoding on the server: send the schema (response_format), choice or regex (structured_outputs). older sends guided_json, guided_choice, guided_regex, for vLLM up to 0.11.',
  },
  seed: {
    type: 'integer',
    minimum: 0,
    default: 0,
    description: 'Seed of the run; each call derives its own seed from it.',
  },
  share: {
    type: 'boolean',
    description:
      'Ask once for the agents that several orderings of a row begin with, and share these answers. Default: sample each item separately.',
  },
  twins: {
    type: 'array',
    items: { type: 'string' },
    description:
      'Columns that must match for two rows to be twins, comma-separated. Twins are asked with the same seeds, so that only their rows differ.',
  },
  redact: {
    type: 'array',
    items: { type: 'string' },
    description:
      'JSON Pointer into an item, e.g. /input/name: keep its text out of the ledger. May be repeated.',
  },
  files: {
    type: 'string',
    file: 'read-folder',
    from: 'base',
    description: 'Folder of the files that messages refer to, as in {"url": "file:photos/1.jpg"}.',
  },
  'retry-failed': { type: 'boolean', description: 'Retry failed items, from the step that failed.' },
});

export function agentsOf(
  options: OptionsOf<typeof AGENTS_OPTION>,
  { base, sets }: Pick<Tools, 'base' | 'sets'>,
): Agents {
  const by = namerOf(options.agents, sets);
  return {
    ...loadAgents(folderOfAgents(options.agents, base)),
    naming: sets
      ? { by, option: '--set STAGE.agents=', else: 'name them in the pipeline file' }
      : { by, option: '--agents ', else: 'put them into ./agents' },
  };
}

/** A pipeline file names agents for every table that it will be given, so that it vouches for none. */
function namerOf(agents: string | undefined, sets: readonly string[] | undefined): string | null {
  if (agents === undefined) return process.env.FW_AGENTS ? 'FW_AGENTS' : null;
  if (sets === undefined) return '--agents';
  const set = sets.find(text => /^[^.=]+\.agents=/.test(text));
  return set === undefined ? null : `--set ${set}`;
}

/**
 * The chain of `agents` on the endpoints of the run; asks for the pool, so it needs an endpoint. `asked` are those that the
 * stage asks, in their order, in words.
 */
export async function openChain(
  agents: Agents,
  options: OptionsOf<typeof ASK_OPTIONS>,
  tools: Tools,
  { stage, asked }: { stage: string; asked: string },
): Promise<Chain> {
  const twins = namesIn(options.twins);
  const fills = options['on-invalid'] === 'default' && agents.defaults;
  const asksWith = {
    stage,
    agents: Object.fromEntries(
      [...agents.byKey.values()].map(({ key, hashes, model }) => [
        key,
        { ...hashes, ...(model && { model }) },
      ]),
    ),
    options: {
      guided: options.guided,
      seed: options.seed,
      ...(options.share && { share: true }),
      ...(twins.length > 0 && { twins: twins.join() }),
    },
    rules: RULES,
  };
  // what an agent file cannot mean is said before any endpoint is looked at
  for (const agent of agents.byKey.values()) checkOf(agent);
  const openings = await openingsOf(agents, options.files && resolve(tools.base, options.files));
  const pool = await tools.pool(asksWith);
  if (options.share && pool.onRecord === undefined)
    throw usageError(
      '--share: expected a ledger through which the items of a row share answers, found none: --ledger DIR',
    );
  const refused = describeRejudged(rejudge(pool.acceptedBefore?.(asksWith) ?? [], agents));
  if (refused) tools.warn(refused);
  const from = agents.folder === packagedAgents() ? 'packaged; --agents names others' : agents.folder;
  tools.warn(`asking ${pool.model} as ${asked} (${from})`);
  tools.tellBeginnings?.(beginsOfItem(agents, openings));
  const guard = inputGuard(agents, tools.warn);
  const chain = chainOf(agents, pool, {
    attempts: options.attempts,
    guided: options.guided as Guided,
    seed: options.seed,
    workload: tools.workload,
    share: options.share,
    twins,
    openings,
    redact: (options.redact ?? []).map(pointerOf),
    onNothingToRedact: (pointer, id) =>
      tools.warn(`--redact ${pointer}: the item ${id} has nothing there, so nothing is redacted`),
    ...(fills && { defaults: fills }),
  });
  return (item, ordering, decides) => {
    guard(item);
    return chain(item, ordering, decides);
  };
}

function pointerOf(text: string): Pointer {
  if (text.startsWith('/')) return { text, segments: parsePointer(text) };
  throw usageError(`--redact: expected a JSON Pointer such as /input/name, found '${text}'`);
}

/**
 * Whether items are of the kind that a folder of agents is for: `expects` in its folder.yaml, a JSON Schema of an
 * item's `input`. Agents answer whatever they are asked, so a support ticket judged as a loan looks like any other
 * result. Looks at an item before it is asked about. Throws Fatal (64), or ItemFailure (`unexpected-input`).
 */
export type Guard = (item: Item) => void;

/**
 * The first item with columns decides. Does it fit, a later one that does not is damaged, and fails alone. Does it not,
 * agents that nobody named for this run are not asked (64), and those that somebody named are, with a warning. Items without columns,
 * and those that were read from legacy results, whose columns may have been lost, are only warned of.
 */
export function inputGuard(agents: Agents, warn: (message: string) => void): Guard {
  const { expects, folder, naming } = agents;
  const namedBy = naming?.by ?? null;
  if (expects === undefined) return () => {};
  const check = compileSchema(expects.schema, expects.path);
  const what = typeof expects.schema.title === 'string' ? ` (${expects.schema.title})` : '';
  let verdict: 'fits' | 'does not' | null = null;
  let warned = false;
  const warnOnce = (message: string): void => {
    if (!warned) warn(message);
    warned = true;
  };
  return item => {
    const { input } = item;
    if (input === undefined) {
      if (namedBy === null)
        warnOnce(
          `the item ${item.id} has no columns (input), so it is unknown whether the agents of ${folder} are meant for it${what}`,
        );
      return;
    }
    if (verdict === 'does not') return;
    const problems = check(input);
    if (problems.length === 0) {
      if (!isReadBack(item)) verdict = 'fits';
      return;
    }
    const found = `found the item ${item.id} with other columns: ${summarise(problems)}`;
    const expected = `expected items with the columns that the agents of ${folder} are for${what}`;
    if (isReadBack(item)) return warnOnce(`${expected}, ${found}`);
    if (verdict === 'fits') throw new ItemFailure('unexpected-input', `${expected}, ${found}`);
    if (namedBy !== null) {
      verdict = 'does not';
      return warnOnce(`${expected}, ${found}; they are asked anyway, as ${namedBy} says`);
    }
    throw usageError(
      `${expected}, ${found}\n` +
        `name your own agents with ${naming?.option}FOLDER, or ${naming?.else} (docs/agents.md)\n` +
        `to ask these anyway: ${naming?.option}${folder}`,
    );
  };
}

/** Of legacy results: an answer that was read back has the mark of that. */
function isReadBack({ steps = [], decision }: Item): boolean {
  return [...steps, ...(decision ? [decision] : [])].some(({ repairs }) =>
    repairs?.some(({ rule }) => rule === 'read-back'),
  );
}

/**
 * Rules of judging change from one version of fw to the next. Answers on record are judged again by today's rules, so
 * an answer that was accepted may be asked again. A run says how many before it asks the first one. Version of the
 * rules by which an answer is accepted. Raise it when an answer that was accepted is refused from now on. Runs of
 * version 1 did not write it down.
 */
export const RULES = 4;

export interface Rejudged {
  /** answers of these agents that were accepted when they were recorded */
  accepted: number;
  /** those of them that today's rules refuse, by the code of the refusal */
  refused: Map<Code, number>;
}

function rejudge(answers: Iterable<RecordedAnswer>, agents: Agents): Rejudged {
  const checks = new Map([...agents.byKey.values()].map(agent => [agent.key, checkOf(agent)]));
  const rejudged: Rejudged = { accepted: 0, refused: new Map() };
  for (const { agent, ...answer } of answers) {
    const check = checks.get(agent);
    if (check === undefined) continue;
    rejudged.accepted += 1;
    const { problem } = readReply(answer, check);
    if (problem) rejudged.refused.set(problem.code, (rejudged.refused.get(problem.code) ?? 0) + 1);
  }
  return rejudged;
}

/** One sentence for a person; null where today's rules refuse none. */
function describeRejudged({ accepted, refused }: Rejudged): string | null {
  const sum = [...refused.values()].reduce((all, one) => all + one, 0);
  if (sum === 0) return null;
  const causes = [...refused]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([code, count]) => `${count.toLocaleString('en')} ${code}`);
  return (
    `the ledger has ${counted(accepted, 'answer')} that an earlier version of fw accepted; ` +
    `today's rules refuse ${sum.toLocaleString('en')} of them (${causes.join(', ')}). ` +
    'This run asks again those that it needs, and every answer that had read one of them.'
  );
}
