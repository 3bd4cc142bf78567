/** What fw run --dry-run prints. */
import { type Account, firstOf } from '../../engine/core/item/account.ts';
import type { Call } from '../../engine/core/item/call.ts';
import { number } from '../../engine/core/item/wording.ts';
import { visible, visibleLines } from '../../engine/core/json/visible.ts';
import type { DryPool } from '../../engine/running/without-asking.ts';

/** A rule of thumb for English text and Llama's tokenizer; the true count is the server's. */
export const CHARACTERS_PER_TOKEN = 4;
/** The share of max_tokens that a guided loan answer took on average; the true length is the model's. */
export const SHARE_OF_MAX = 0.5;
/** Bytes of a call in the ledger beside its texts, its verdict too. */
export const BESIDE = 700;

/** Of what is to be asked; bytes are those of the output, as items and as legacy results, and of the ledger. */
export interface Sum {
  items: number;
  calls: number;
  promptTokens: number;
  completionTokens: number;
  /** keys of the agents that are to be asked */
  agents: Set<string>;
  bytes: { items: number; results: number; ledger: number };
}

interface Page {
  pool: DryPool;
  /** of the items that need no further call */
  account: Account;
  target: string;
  isThere: boolean;
  ledger: string | undefined;
  model: string | undefined;
  writesResults: boolean;
  /** stages that ask behind the first one */
  later: readonly string[];
  /** what the prompts have in common */
  sharing: readonly string[];
}

export function render(
  sum: Sum,
  { pool, account, target, isThere, ledger, model, writesResults, later, sharing }: Page,
): string {
  const lines = [...pool.first.values()].flatMap(firstCall);
  const unknown = [...sum.agents].filter(key => !pool.first.has(key));
  if (unknown.length > 0)
    lines.push(`What ${unknown.join(', ')} will be shown holds answers that are not there yet.`, '');
  const { failed } = account.rungs;
  const isOnRecord = pool.replayed > 0 || (ledger !== undefined && model !== undefined);
  const size = writesResults
    ? `${megabytes(sum.bytes.results)} for the legacy results`
    : `${megabytes(sum.bytes.items)} for the items`;
  lines.push(
    `items            ${number(sum.items)}${failed > 0 ? `, ${number(failed)} of them fail without a further call` : ''}`,
    ...[...account.failures].map(
      ([cause, found]) =>
        `                 failed: ${number(found.times)} ${visible(cause)}, ${visible(firstOf(found))}`,
    ),
    `calls            ${number(sum.calls)}, if every first answer fits${isOnRecord ? `; ${number(pool.replayed)} are on record` : ''}`,
    ...(later.length > 0
      ? [`                 not counted: those of ${later.join(', ')}, which ask behind it`]
      : []),
    `tokens in        about ${number(sum.promptTokens)} (${CHARACTERS_PER_TOKEN} characters a token)`,
    ...sharing.map((line, at) => `${at === 0 ? 'shared           ' : '                 '}${line}`),
    `tokens out       about ${number(sum.completionTokens)} (half of max_tokens)`,
    `disk             about ${size}${ledger === undefined ? '' : `, and ${megabytes(sum.bytes.ledger)} for the ledger in ${visible(ledger)}`}`,
    `output           ${visible(target)}${isThere ? ': exists, and would be replaced' : ''}`,
  );
  return lines.join('\n');
}

/** The first call to an agent, its messages one by one; a raw request as it is. */
function firstCall({ agent, item, raw, body }: Call): string[] {
  const asked = JSON.parse(body.toString()) as { messages?: { role: string; content: unknown }[] };
  const head = (what: string): string => `The first ${what}, of item ${visible(item)}, to ${visible(agent)}:`;
  if (raw || asked.messages === undefined)
    return [head('request'), '', ...visibleLines(JSON.stringify(asked, null, 2)), ''];
  const messages = asked.messages.flatMap(({ role, content }) => [
    `--- ${visible(role)}`,
    ...visibleLines((typeof content === 'string' ? content : JSON.stringify(content, null, 2)).trim()),
  ]);
  return [head('call'), '', ...messages, '---', ''];
}

const megabytes = (bytes: number): string => `${number(Math.ceil(bytes / 1e6))} MB`;
