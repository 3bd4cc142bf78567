/** What fw run --dry-run prints. */
import { moneyWords, type Price, tokenCost } from '../../engine/asking/endpoints/price.ts';
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
  /** what is to be asked of each agent, by its key; of raw requests by their URL */
  agents: Map<string, Due>;
  bytes: { items: number; results: number; ledger: number };
}

/** Calls that are to be made, and their tokens by the rules of thumb. */
export interface Due {
  calls: number;
  prompt: number;
  completion: number;
}

export function dueOf({ agents }: Sum, name: string): Due {
  const due = agents.get(name) ?? { calls: 0, prompt: 0, completion: 0 };
  agents.set(name, due);
  return due;
}

export interface Priced {
  url: string;
  price: Price;
}

/** Answers on record from which on they say more of an agent than the rules of thumb. */
const LEAST_PILOT = 5;

/** Tokens of what is to be asked: as answers of the same agent on record used, where there are some; else by rule of thumb. */
export function estimate({ agents }: Sum, pilot: DryPool['pilot']) {
  const sum = { prompt: 0, completion: 0, cached: 0, answers: 0, thumb: [] as string[] };
  for (const [name, due] of agents) {
    const known = pilot.get(name);
    if (due.calls === 0) continue;
    if (known === undefined || known.answers < LEAST_PILOT) {
      sum.prompt += due.prompt;
      sum.completion += due.completion;
      sum.thumb.push(name);
      continue;
    }
    const each = (tokens: number): number => Math.round((due.calls * tokens) / known.answers);
    sum.prompt += each(known.prompt);
    sum.completion += each(known.completion);
    sum.cached += each(known.cached);
    sum.answers += known.answers;
  }
  return sum;
}

interface Page {
  /** endpoints of the pool file that have a price */
  priced: readonly Priced[];
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
  { pool, account, target, isThere, ledger, model, writesResults, later, sharing, priced }: Page,
): string {
  const tokens = estimate(sum, pool.pilot);
  const lines = [...pool.first.values()].flatMap(firstCall);
  const unknown = [...sum.agents.keys()].filter(key => !pool.first.has(key));
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
    `tokens in        about ${number(tokens.prompt)} (${asOnRecord(tokens, `${CHARACTERS_PER_TOKEN} characters a token`)})`,
    ...sharing.map((line, at) => `${at === 0 ? 'shared           ' : '                 '}${line}`),
    `tokens out       about ${number(tokens.completion)} (${asOnRecord(tokens, 'half of max_tokens')})`,
    ...costLines(tokens, priced),
    `disk             about ${size}${ledger === undefined ? '' : `, and ${megabytes(sum.bytes.ledger)} for the ledger in ${visible(ledger)}`}`,
    `output           ${visible(target)}${isThere ? ': exists, and would be replaced' : ''}`,
  );
  return lines.join('\n');
}

/** Where the tokens of an estimate come from; `thumb`: the rule of thumb. */
function asOnRecord({ answers, thumb: without }: ReturnType<typeof estimate>, thumb: string): string {
  if (answers === 0) return thumb;
  const rest = without.length > 0 ? `; ${thumb} for ${without.map(name => visible(name)).join(', ')}` : '';
  return `as in the ${number(answers)} answers on record${rest}`;
}

/** What all of it would cost at each endpoint that has a price. */
function costLines(tokens: ReturnType<typeof estimate>, priced: readonly Priced[]): string[] {
  return priced.map(({ url, price }, at) => {
    const words =
      price.hour === null
        ? `about ${moneyWords(tokenCost(price, tokens))} if all is asked at ${visible(url)} (${price.text})`
        : `${price.text} for each hour of ${visible(url)}; fw plan says how many`;
    return `${at === 0 ? 'cost             ' : '                 '}${words}`;
  });
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
