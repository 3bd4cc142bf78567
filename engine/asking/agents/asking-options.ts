/** The options of every stage that asks agents, and what they become. */
import { resolve } from 'node:path';
import { usageError } from '../../core/item/failure.ts';
import { parsePointer } from '../../core/json/pointer.ts';
import { grouped, namesIn, type OptionSchemas, type OptionsOf } from '../../flow/options.ts';
import type { Tools } from '../../flow/stage.ts';
import { type Chain, chainOf, type Pointer } from './ask-chain.ts';
import { inputGuard } from './expects.ts';
import { checkOf } from './form.ts';
import { type Agents, folderOfAgents, loadAgents, packagedAgents } from './load-agents.ts';
import { openingsOf } from './openings.ts';
import { describeRejudged, RULES, rejudge } from './rejudge.ts';
import type { Guided } from './request-body.ts';

export const AGENTS_OPTION = {
  agents: {
    type: 'string',
    file: 'read-folder',
    from: 'base',
    description: 'Folder of agent files. Default: FW_AGENTS, else ./agents, else the packaged FairWatch.',
  },
} as const satisfies OptionSchemas;

export const ASK_OPTIONS = grouped('Asking', {
  ...AGENTS_OPTION,
  attempts: {
    type: 'integer',
    minimum: 1,
    maximum: 20,
    default: 3,
    description: 'How often to ask until an answer fits the schema.',
  },
  'on-invalid': {
    type: 'string',
    enum: ['fail', 'default'],
    default: 'fail',
    description: 'If no answer fits: fail the item, or fill in the defaults of null-fix (rung defaulted).',
  },
  guided: {
    type: 'string',
    enum: ['on', 'off', 'older'],
    default: 'on',
    description:
      'Send the schema (response_format), choice or regex (structured_outputs), so that the server decodes by it; older: as guided_json, guided_choice, guided_regex, for vLLM up to 0.11.',
  },
  seed: {
    type: 'integer',
    minimum: 0,
    default: 0,
    description: 'Seed of the run. Each call derives its own seed from it.',
  },
  share: {
    type: 'boolean',
    description:
      'Ask once what the orderings of a row have in common: those that begin alike share these answers. Default: each item has samples of its own.',
  },
  twins: {
    type: 'array',
    items: { type: 'string' },
    description:
      'Columns in which twins are alike, also comma-separated. Twins are asked with the same seeds, so that they differ in their rows alone.',
  },
  redact: {
    type: 'array',
    items: { type: 'string' },
    description:
      'JSON Pointer into an item, such as /input/name. The ledger does not keep its text. May be repeated.',
  },
  files: {
    type: 'string',
    file: 'read-folder',
    from: 'base',
    description: 'Folder of the files that messages name, as in {"url": "file:photos/1.jpg"}.',
  },
  'retry-failed': { type: 'boolean', description: 'Ask failed items again, from the step that failed.' },
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
      '--share: expected a ledger, from which the other items of a row take the answer, found none: --ledger DIR',
    );
  const refused = describeRejudged(rejudge(pool.acceptedBefore?.(asksWith) ?? [], agents));
  if (refused) tools.warn(refused);
  const from = agents.folder === packagedAgents() ? 'packaged; --agents names others' : agents.folder;
  tools.warn(`asking ${pool.model} as ${asked} (${from})`);
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
