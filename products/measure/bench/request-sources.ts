/** What fw bench asks, as its flags say: made-up prompts, those of a ledger's lengths, or the user's own. */

import type { Agents } from '../../../engine/asking/agents/load-agents.ts';
import type { Guided } from '../../../engine/asking/agents/request-body.ts';
import { usageError } from '../../../engine/core/item/failure.ts';
import { counted, cut } from '../../../engine/core/item/wording.ts';
import type { Given } from './bench-options.ts';
import type { Target } from './bench-servers.ts';
import {
  askedOfAdapters,
  chatPath,
  fitWords,
  type Lengths,
  lengthsIn,
  ownWorkload,
  type Synthetic,
  syntheticWorkload,
  type Workload,
} from './bench-workload.ts';
import { type OwnLines, ownRequests } from './own-requests.ts';

export const say = (message: string): void => void process.stderr.write(`fw bench: ${message}\n`);

/** The lengths of made-up prompts; null where the user's own are asked. */
export function syntheticOf(
  options: Given,
  files: readonly string[],
): { inputTokens: number; outputTokens: number } | null {
  const { 'input-tokens': input, 'output-tokens': output } = options;
  if (input === undefined && output === undefined) {
    if (files.length === 0 && process.stdin.isTTY)
      throw usageError(
        'expected something to ask, found none: give items on standard input (fw ingest prompts.csv | fw bench …), a FILE, or made-up prompts with --input-tokens 400 --output-tokens 128',
      );
    return null;
  }
  if (files.length > 0)
    throw usageError(`expected --input-tokens and --output-tokens, or a file, found both ("${files[0]}")`);
  const asked = { inputTokens: input ?? 400, outputTokens: output ?? 128 };
  if (options['prefix-tokens'] >= asked.inputTokens && options['prefix-tokens'] > 0)
    throw usageError(
      `--prefix-tokens: expected fewer than --input-tokens (${asked.inputTokens}), found ${options['prefix-tokens']}`,
    );
  return asked;
}

/** Those of the calls of a ledger; null where none is named. */
export function lengthsOf(options: Given, files: readonly string[]): Lengths | null {
  const { ledger, 'input-tokens': input, 'output-tokens': output, spread, 'prefix-tokens': prefix } = options;
  if (ledger === undefined) return null;
  if (files.length > 0 || input !== undefined || output !== undefined || spread > 0 || prefix > 0)
    throw usageError('expected only one of --ledger, a file, and --input-tokens with its options, found two');
  return lengthsIn(ledger, ({ kind, path, message }) => {
    if (kind !== 'torn') say(`${path}: ${message}`);
  });
}

const MOST_ADAPTERS = 100;

export function adaptersOf(text: string | undefined): string[] {
  if (text === undefined) return [];
  const names = text.split(',').map(name => name.trim());
  if (names.some(name => name === '') || new Set(names).size < names.length || names.length > MOST_ADAPTERS)
    throw usageError(
      `--lora: expected up to ${MOST_ADAPTERS} different names, such as a,b, found '${cut(text, 100)}'`,
    );
  return names;
}

/** Of the prompts that warm up, where the user's own are measured: about so long is enough. */
const USUAL_FIT = { template: 20, perWord: 1.2 };
export const WARM_UP_LENGTHS = { inputTokens: 200, outputTokens: 16 };

interface Source {
  target: Target;
  /** of made-up prompts; of those that warm up, where lines are asked */
  lengths: Synthetic;
  /** the user's own lines, and by which agents they are asked; null: prompts are made up */
  own: OwnLines | null;
  agents: Agents | undefined;
  guided: Guided;
  /** what the lines are of: `the input`, the name of a file */
  of: string;
  warn(message: string): void;
}

/** What is asked of servers that are there. Exit 69 where they do not count tokens, 64 or 65 for a line that cannot be asked. */
export async function workloadOf({ target, lengths, own, agents, ...more }: Source): Promise<Workload> {
  const { endpoints, model, servedAs } = target;
  const [first] = endpoints as [(typeof endpoints)[number]];
  const { seed, adapters = [] } = lengths;
  const fit = own === null ? await fitWords(first, model, seed) : USUAL_FIT;
  const made = syntheticWorkload(chatPath(first), model, fit, lengths);
  if (own === null) return made;
  const requests = await ownRequests(own, {
    agents,
    guided: more.guided,
    seed,
    prefix: first.prefix,
    modelOf: named => (named === undefined ? model : (servedAs.get(named) ?? named)),
    warn: more.warn,
  });
  const source = `${counted(requests.length, 'request')} of ${counted(own.lines.length, 'line')} of ${more.of}`;
  return ownWorkload(
    adapters.length > 0 ? `${source}, for ${adapters.join(', ')} in turn` : source,
    askedOfAdapters(requests, adapters),
    made,
  );
}

/** Exit 64 where made-up prompts and answers do not fit into the context of the model. */
export function expectToFit(
  most: number | undefined,
  { inputTokens, outputTokens, spread, lengths: replayed }: Synthetic,
): void {
  const longest = replayed
    ? replayed.pairs.reduce((longer, [prompt, answer]) => Math.max(longer, prompt + answer), 0)
    : (inputTokens + outputTokens) * (1 + spread);
  if (most !== undefined && longest > most)
    throw usageError(
      `expected prompts and answers that fit into the ${most} tokens of the model, found ${Math.ceil(longest)}: lower --input-tokens, --output-tokens or --spread, or use the --ledger of a model with no longer context`,
    );
}

/** Models that are asked for by name: undefined stands for the one that the servers have. */
export function modelsOf(own: OwnLines | null, agents: Agents | undefined): (string | undefined)[] {
  if (agents) return [...agents.byKey.values()].map(({ model }) => model);
  return own === null ? [undefined] : [];
}
