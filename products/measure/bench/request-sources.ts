/** What fw bench asks, as its flags say: made-up prompts, those of a ledger's lengths, or the user's own. */

import { usageError } from '../../../engine/core/item/failure.ts';
import { counted, cut } from '../../../engine/core/item/wording.ts';
import type { OptionsOf } from '../../../engine/flow/options.ts';
import type { Target } from './bench-servers.ts';
import {
  askedOfAdapters,
  chatPath,
  ownWorkload,
  syntheticWorkload,
  type Workload,
} from './bench-workload.ts';
import { fitWords } from './fit.ts';
import { type Lengths, lengthsIn } from './ledger-lengths.ts';
import { type OwnLines, ownRequests } from './own-requests.ts';
import type { OPTIONS } from './taken-flags.ts';

export type Given = OptionsOf<typeof OPTIONS> & { seed: number };

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
        'expected something to ask, found none: items on standard input (fw ingest prompts.csv | fw bench …), a FILE, or made-up prompts by --input-tokens 400 --output-tokens 128',
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
    throw usageError(
      'expected --ledger, a file, or --input-tokens with what is said of them, found two of these',
    );
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

interface Sources {
  target: Target;
  synthetic: { inputTokens: number; outputTokens: number } | null;
  lengths: Lengths | null;
  adapters: readonly string[];
  own: OwnLines | null;
  agents: Parameters<typeof ownRequests>[1]['agents'];
}

/** Of the prompts that warm up, where the user's own are measured: about so long is enough. */
const USUAL_FIT = { template: 20, perWord: 1.2 };
export const WARM_UP_LENGTHS = { inputTokens: 200, outputTokens: 16 };

export async function workloadOf(
  options: Given,
  { target, synthetic, lengths: replayed, adapters, own, agents }: Sources,
): Promise<Workload> {
  const { endpoints, model, servedAs, maxModelLength } = target;
  const [first] = endpoints as [(typeof endpoints)[number]];
  const lengths = synthetic ?? WARM_UP_LENGTHS;
  const longest = replayed
    ? replayed.pairs.reduce((most, [prompt, answer]) => Math.max(most, prompt + answer), 0)
    : (lengths.inputTokens + lengths.outputTokens) * (1 + options.spread);
  if (synthetic !== null && maxModelLength !== undefined && longest > maxModelLength)
    throw usageError(
      `expected prompts and answers that fit into the ${maxModelLength} tokens of the model, found ${Math.ceil(longest)}: fewer --input-tokens or --output-tokens, less --spread, or the --ledger of a model with no more`,
    );
  const fit = synthetic === null ? USUAL_FIT : await fitWords(first, model, options.seed);
  const { 'prefix-tokens': prefixTokens, spread, seed } = options;
  const made = syntheticWorkload(chatPath(first), model, fit, {
    ...lengths,
    prefixTokens,
    spread,
    seed,
    adapters,
    ...(replayed && { lengths: replayed }),
  });
  if (own === null) return made;
  const requests = await ownRequests(own, {
    agents,
    guided: options.guided as 'on',
    seed,
    prefix: first.prefix,
    modelOf: named => (named === undefined ? model : (servedAs.get(named) ?? named)),
    warn: say,
  });
  const source = `${counted(requests.length, 'request')} of ${counted(own.lines.length, 'line')} of the input`;
  return ownWorkload(
    adapters.length > 0 ? `${source}, for ${adapters.join(', ')} in turn` : source,
    askedOfAdapters(requests, adapters),
    made,
  );
}
