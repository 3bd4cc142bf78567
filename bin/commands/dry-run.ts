/**
 * fw run --dry-run: what a pipeline would ask, without asking: the first prompt as an agent would see it, how many
 * calls and about how many tokens, the disk that the results need, and what would be in the way.
 */
import { existsSync } from 'node:fs';
import type { Agent } from '../../engine/agents/agent-file.ts';
import { type Guard, inputGuard } from '../../engine/agents/expects.ts';
import { mostTokens } from '../../engine/agents/fields.ts';
import type { Agents } from '../../engine/agents/load.ts';
import { agentsOf } from '../../engine/agents/options.ts';
import { resolveOrderings } from '../../engine/agents/orderings.ts';
import { rowIdOf, sharedName } from '../../engine/agents/share.ts';
import { createIdSet } from '../../engine/files/idset.ts';
import { EXIT, ItemFailure } from '../../engine/item/failure.ts';
import { failureOf, type Item, isRawRequest, type RawRequest } from '../../engine/item/item.ts';
import { number } from '../../engine/item/words.ts';
import { visible, visibleLines } from '../../engine/json/visible.ts';
import { itemsBefore } from '../../engine/run/first-items.ts';
import type { Pipeline } from '../../engine/run/pipeline.ts';

/** A rule of thumb for English text and Llama's tokenizer; the true count is the server's. */
const CHARACTERS_PER_TOKEN = 4;
/** The share of max_tokens that a guided loan answer took on average; the true length is the model's. */
const SHARE_OF_MAX = 0.5;

export interface DryRun {
  row: Pipeline['row'];
  files: readonly string[];
  base: string;
  sets: readonly string[];
  target: string;
  /** of a pipeline file, as a run takes it */
  ledger?: string | false | undefined;
}

/** The first item that is asked about, and the agent that is asked; no agent for a raw request. */
interface First {
  item: Item;
  agent?: Agent;
}

interface Sum {
  items: number;
  failed: number;
  calls: number;
  promptTokens: number;
  completionTokens: number;
  /** of the output, as items and as legacy results, and of the ledger */
  bytes: { items: number; results: number; ledger: number };
}

export async function dryRun({ row, files, base, sets, target, ledger }: DryRun): Promise<number> {
  const asker = row.findIndex(({ stage }) => stage.asks);
  const asks = (item: Item): boolean => {
    const failure = failureOf(item);
    const { heals } = row[asker]?.stage ?? {};
    const isHealed = failure && typeof heals === 'function' && heals(failure, options);
    return askedOf(item) !== null && (failure === undefined || isHealed === true);
  };
  const options = row[asker]?.options ?? {};
  const agents = agentsOf({ agents: options.agents as string | undefined }, { base, sets });
  const isRequest = (item: Item): boolean =>
    row[asker]?.stage.name === 'request' && isRawRequest(item.request) && item.failure === undefined;
  const guard = inputGuard(agents, message => {
    process.stderr.write(`dry-run: ${visibleLines(message).join('\n  ')}\n`);
  });
  const standard = resolveOrderings(undefined, agents)[0] ?? [];
  const bytes = { items: 0, results: 0, ledger: 0 };
  const sum: Sum = { items: 0, failed: 0, calls: 0, promptTokens: 0, completionTokens: 0, bytes };
  let first = null as First | null;
  const isAsked = sharing();

  const take = (item: Item): boolean => {
    sum.items += 1;
    if (isRequest(item)) {
      first ??= { item };
      addRequest(sum, item.request as RawRequest);
      return true;
    }
    if (!asks(item) || !isExpected(item, guard)) {
      sum.failed += 1;
      return true;
    }
    const asked = agentsAsked(item, agents, standard, options.decision !== false);
    first ??= asked[0] === undefined ? null : { item, agent: asked[0] };
    const isShared = options.share === true ? isAsked(item, agents) : () => false;
    addCalls(sum, askedOf(item) as string, asked, isShared);
    return true;
  };
  const warn = (message: string): void => void process.stderr.write(`${visibleLines(message).join('\n')}\n`);
  await itemsBefore({ row, files, base, label: 'dry-run', take, warn });
  const place = (options.ledger as string | undefined) ?? ledger ?? process.env.FW_LEDGER;
  const writesResults = row.some(({ stage }) => stage.name === 'legacy-convert');
  process.stdout.write(
    `${renderDryRun(first, sum, { target, ledger: place || undefined, writesResults })}\n`,
  );
  return sum.failed > 0 ? EXIT.failed : EXIT.ok;
}

/** What an item asks, as text: its prompt, else its chat messages as JSON. */
function askedOf({ prompt, messages }: Item): string | null {
  if (typeof prompt === 'string') return prompt;
  return Array.isArray(messages) ? JSON.stringify(messages, null, 2) : null;
}

function isExpected(item: Item, guard: Guard): boolean {
  try {
    guard(item);
    return true;
  } catch (error) {
    if (error instanceof ItemFailure) return false;
    throw error;
  }
}

function agentsAsked(item: Item, agents: Agents, standard: string[], decides: boolean): Agent[] {
  const done = (item.steps ?? []).filter(step => step.output !== undefined).length;
  const keys = (item.ordering ?? standard).slice(done);
  const asked = keys.flatMap(key => agents.byKey.get(key) ?? []);
  return decides && agents.synthesis && item.decision?.output === undefined
    ? [...asked, agents.synthesis]
    : asked;
}

/** Whether another item of the row has asked this already (--share), by the keys of the agents up to the one who is asked. */
function sharing(): (item: Item, agents: Agents) => (agent: Agent) => boolean {
  const names = createIdSet();
  return (item, agents) => {
    const before = (item.steps ?? []).filter(step => step.output !== undefined).map(step => step.agent);
    const id = rowIdOf(item, agents);
    return ({ key, role }) => {
      before.push(key);
      const name = role === 'synthesis' ? null : sharedName(id, before, agents);
      return name !== null && !names.add(name);
    };
  };
}

function addCalls(sum: Sum, prompt: string, asked: Agent[], isKnown: (agent: Agent) => boolean): void {
  let context = prompt.length;
  sum.bytes.items += context;
  for (const agent of asked) {
    const completion = Math.round(mostTokens(agent.sampling) * SHARE_OF_MAX);
    const answer = completion * CHARACTERS_PER_TOKEN;
    if (!isKnown(agent)) {
      sum.calls += 1;
      sum.promptTokens += Math.round(((agent.persona?.length ?? 0) + context) / CHARACTERS_PER_TOKEN);
      sum.completionTokens += completion;
      // a call's line has the context that was sent and the answer, and beside them ids, times and a checksum
      sum.bytes.ledger += context + answer + BESIDE;
    }
    // an answer is in its turn and in the list of outputs, the context before it is in its turn
    sum.bytes.results += context + 2 * answer;
    sum.bytes.items += answer;
    context += answer;
  }
}

function addRequest(sum: Sum, { body }: RawRequest): void {
  const { length } = JSON.stringify(body);
  const most = body.max_completion_tokens ?? body.max_tokens;
  const completion = typeof most === 'number' ? Math.round(most * SHARE_OF_MAX) : 0;
  const answer = completion * CHARACTERS_PER_TOKEN;
  sum.calls += 1;
  sum.promptTokens += Math.round(length / CHARACTERS_PER_TOKEN);
  sum.completionTokens += completion;
  sum.bytes.items += length + answer + BESIDE;
  sum.bytes.ledger += length + answer + BESIDE;
}

/** Bytes of a call in the ledger beside its texts, its verdict too. */
const BESIDE = 700;

function renderDryRun(
  first: First | null,
  sum: Sum,
  {
    target,
    ledger,
    writesResults,
  }: { target: string; ledger: string | false | undefined; writesResults: boolean },
): string {
  const lines: string[] = [];
  if (first !== null) {
    const { item, agent } = first;
    if (agent === undefined) {
      const { url = '', body } = item.request ?? {};
      const text = JSON.stringify(body, null, 2);
      lines.push(`The first request, of item ${visible(String(item.id))}, to ${visible(url)}:`, '');
      lines.push(...visibleLines(text), '');
    } else {
      lines.push(`The first call, of item ${visible(String(item.id))}, to ${visible(agent.key)}:`, '');
      if (agent.persona !== undefined) lines.push('--- system', ...visibleLines(agent.persona.trim()));
      const from = typeof item.prompt === 'string' ? 'user' : 'messages';
      lines.push(`--- ${from}`, ...visibleLines(askedOf(item) as string), '---', '');
    }
  }
  lines.push(
    `items            ${number(sum.items)}${sum.failed > 0 ? `, ${number(sum.failed)} of them failed before any call` : ''}`,
    `calls            ${number(sum.calls)}, if every first answer fits`,
    `tokens in        about ${number(sum.promptTokens)} (${CHARACTERS_PER_TOKEN} characters a token)`,
    `tokens out       about ${number(sum.completionTokens)} (half of max_tokens)`,
    `disk             about ${diskOf(sum, writesResults)}${ledger ? `, and ${megabytes(sum.bytes.ledger)} for the ledger in ${visible(ledger)}` : ''}`,
    `output           ${visible(target)}${existsSync(target) ? ': exists, and would be replaced' : ''}`,
  );
  return lines.join('\n');
}

function diskOf({ bytes }: Sum, writesResults: boolean): string {
  const { items, results } = bytes;
  return writesResults ? `${megabytes(results)} for the legacy results` : `${megabytes(items)} for the items`;
}

const megabytes = (bytes: number): string => `${number(Math.ceil(bytes / 1e6))} MB`;
