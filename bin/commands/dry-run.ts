/**
 * fw run --dry-run: what a pipeline would ask, without asking: the first prompt of each agent that can be known, how many
 * calls are on record and how many are to be made, about how many tokens, the disk that the results need, and what fails.
 * The stage that asks works as ever, over a pool that only knows what the ledger has; nothing is written, and no lock taken.
 */

import { existsSync } from 'node:fs';
import { arrangementOf, turnsOf } from '../../engine/asking/agents/arrangement.ts';
import { questionOf } from '../../engine/asking/agents/asked-once.ts';
import { agentsOf } from '../../engine/asking/agents/asking-options.ts';
import type { Agent, Agents } from '../../engine/asking/agents/load-agents.ts';
import { resolveOrderings, rowIdOf, sharedName } from '../../engine/asking/agents/orderings.ts';
import { mostTokens } from '../../engine/asking/agents/request-body.ts';
import type { PoolFile } from '../../engine/asking/endpoints/settings.ts';
import { openRecorded } from '../../engine/asking/ledger/ledger.ts';
import { createIdSet } from '../../engine/core/files/idset.ts';
import { count, newAccount } from '../../engine/core/item/account.ts';
import type { Begins } from '../../engine/core/item/call.ts';
import { EXIT } from '../../engine/core/item/failure.ts';
import { type Item, isRawRequest, type RawRequest } from '../../engine/core/item/item.ts';
import { visibleLines } from '../../engine/core/json/visible.ts';
import { beginningOf } from '../../engine/flow/beginnings.ts';
import { Sharing, sharedWords } from '../../engine/flow/sharing.ts';
import { itemWork, type Stage, type Tools } from '../../engine/flow/stage.ts';
import type { Pipeline } from '../../engine/running/pipeline.ts';
import { silent } from '../../engine/running/stage-options.ts';
import { type DryPool, dryPool, dryTools, itemsBefore } from '../../engine/running/without-asking.ts';
import {
  BESIDE,
  CHARACTERS_PER_TOKEN,
  dueOf,
  type Priced,
  render,
  SHARE_OF_MAX,
  type Sum,
} from './dry-run-page.ts';

export interface DryRun {
  row: Pipeline['row'];
  files: readonly string[];
  base: string;
  sets: readonly string[];
  target: string;
  /** of a pipeline file, as a run takes it */
  ledger?: string | false | undefined;
  pool?: PoolFile | undefined;
}

type Asker = Pipeline['row'][number];

export async function dryRun({
  row,
  files,
  base,
  sets,
  target,
  ledger,
  pool: file,
}: DryRun): Promise<number> {
  const at = row.findIndex(({ stage }) => stage.asks);
  const asker = row[at];
  const account = newAccount('dry-run');
  const bytes = { items: 0, results: 0, ledger: 0 };
  const sum: Sum = { items: 0, calls: 0, agents: new Map(), bytes };
  const place =
    ((asker?.options.ledger as string | undefined) ?? ledger ?? process.env.FW_LEDGER) || undefined;
  const recorded = place === undefined ? null : openRecorded(place, warn);
  const model = (asker?.options.model as string | undefined) ?? file?.model ?? recorded?.lastModel;
  const pool = dryPool(model ?? 'the model of the endpoints', recorded);
  const sharing = new Sharing();
  let begins: ((item: Item) => Begins | null) | undefined;
  let work: ((item: Item) => Promise<Item>) | undefined;
  let pending: ((item: Item) => void) | undefined;
  const once = asker?.options.once === true;
  const toAsk = createIdSet(); // questions
  await itemsBefore({
    ...{ row, files, base, label: 'dry-run', warn },
    async take(item) {
      const own = asker as Asker;
      work ??= await workOf(own, pool, { base, sets, files }, told => {
        begins = told;
      });
      pending ??=
        own.stage.name === 'request' ? item => addRequest(sum, item) : pendingOf(sum, own, { base, sets });
      sum.items += 1;
      const question = questionOf(item);
      const said = begins && beginningOf(item, begins);
      if (said) sharing.add(item, said, question);
      if (once && question !== null && toAsk.has(question)) {
        addRequest(sum, item, false);
        return true;
      }
      const missed = pool.missed;
      const after = await work(item);
      // what it lacks is not there yet; all else is as a run would leave it
      if (pool.missed > missed) {
        pending(after);
        if (once && question !== null) toAsk.add(question);
      } else {
        count(account, after);
        const { length } = JSON.stringify(after);
        bytes.items += length;
        bytes.results += length;
      }
      return true;
    },
  });
  const later = row.slice(at + 1).filter(({ stage }) => stage.asks);
  process.stdout.write(
    `${render(sum, {
      ...{ pool, account, target, ledger: place, isThere: existsSync(target), model },
      writesResults: row.some(({ stage }) => stage.name === 'legacy-convert'),
      later: later.map(({ stage }) => stage.name),
      priced: await pricedIn(asker?.options.pool as string | undefined, file),
      sharing: sharedWords(sharing.shared(), once),
    })}\n`,
  );
  await pool.close();
  return account.rungs.failed > 0 ? EXIT.failed : EXIT.ok;
}

/** The endpoints of the pool file that a run would use which have a price. */
async function pricedIn(path: string | undefined, file: PoolFile | undefined): Promise<Priced[]> {
  const { readPoolFile } = await import('../../engine/asking/endpoints/settings.ts');
  const { priceOf } = await import('../../engine/asking/endpoints/price.ts');
  const endpoints = (path === undefined ? file : readPoolFile(path))?.endpoints ?? [];
  return endpoints.flatMap(({ url, price }) => {
    const known = price === undefined ? null : priceOf(String(price));
    return known === null ? [] : [{ url, price: known }];
  });
}

function warn(message: string): void {
  const text = message.replace(/^asking /, 'would ask ');
  process.stderr.write(`dry-run: ${visibleLines(text).join('\n  ')}\n`);
}

/** What the stage that asks does to an item where nobody answers but the ledger. */
async function workOf(
  placed: Asker,
  pool: DryPool,
  own: Pick<Tools, 'base' | 'files'> & { sets: readonly string[] },
  tellBeginnings: Tools['tellBeginnings'] & object,
): Promise<(item: Item) => Promise<Item>> {
  const { stage, options } = silent(placed);
  const tools = { ...dryTools({ ...own, warn, pool: async () => pool }), tellBeginnings };
  const each = await (stage as Stage).each?.(options, tools);
  if (each === undefined) throw new Error(`${stage.name} asks, and works on no item`);
  const work = itemWork(stage, options, each);
  return async item => work(item);
}

/** Adds the calls that an item lacks: each agent that has not answered, and the decision. */
function pendingOf(
  sum: Sum,
  { stage, options }: Asker,
  by: { base: string; sets: readonly string[] },
): (item: Item) => void {
  const agents = agentsOf({ agents: options.agents as string | undefined }, by);
  const standard = resolveOrderings(undefined, agents)[0] ?? [];
  const isAsked = options.share === true ? sharing(agents) : () => () => false;
  const decides = stage.name === 'chain' ? options.decision !== false : stage.name === 'synthesize-decision';
  return item => {
    const { steps = [], decision } = item;
    const turns = turnsOf(item.ordering ?? standard, arrangementOf(item));
    // agent-step asks one of a longer ordering
    const due = stage.name === 'agent-step' ? turns.slice(0, steps.length) : turns;
    const asked = due.flatMap(({ agent }, at) =>
      steps[at]?.output === undefined ? (agents.byKey.get(agent) ?? []) : [],
    );
    if (decides && agents.synthesis && decision?.output === undefined) asked.push(agents.synthesis);
    addCalls(sum, item, asked, isAsked(item));
  };
}

/** Whether another item of the row has asked this already (--share), by the keys of the agents up to the one who is asked. */
function sharing(agents: Agents): (item: Item) => (agent: Agent) => boolean {
  const names = createIdSet();
  return item => {
    const before = (item.steps ?? []).filter(step => step.output !== undefined).map(step => step.agent);
    const id = rowIdOf(item, agents);
    return ({ key, role }) => {
      before.push(key);
      const name = role === 'synthesis' ? null : sharedName(id, before, agents);
      return name !== null && !names.add(name);
    };
  };
}

function addCalls(sum: Sum, item: Item, asked: readonly Agent[], isKnown: (agent: Agent) => boolean): void {
  const { prompt, messages, steps = [] } = item;
  const said = steps.map(({ output }) => (output === undefined ? 0 : JSON.stringify(output).length));
  let context = said.reduce((all, length) => all + length, (prompt ?? JSON.stringify(messages ?? '')).length);
  sum.bytes.items += context;
  for (const agent of asked) {
    const completion = Math.round(mostTokens(agent.sampling) * SHARE_OF_MAX);
    const answer = completion * CHARACTERS_PER_TOKEN;
    const due = dueOf(sum, agent.key);
    if (!isKnown(agent)) {
      sum.calls += 1;
      due.calls += 1;
      due.prompt += Math.round(((agent.persona?.length ?? 0) + context) / CHARACTERS_PER_TOKEN);
      due.completion += completion;
      // a call's line has the context that was sent and the answer, and beside them ids, times and a checksum
      sum.bytes.ledger += context + answer + BESIDE;
    }
    // an answer is in its turn and in the list of outputs, the context before it is in its turn
    sum.bytes.results += context + 2 * answer;
    sum.bytes.items += answer;
    context += answer;
  }
}

/** `isAsked`: an equal one is not, which was asked once already. */
function addRequest(sum: Sum, { request }: Item, isAsked = true): void {
  if (!isRawRequest(request)) return;
  const { body, url } = request as RawRequest;
  const { length } = JSON.stringify(body);
  const most = body.max_completion_tokens ?? body.max_tokens;
  const completion = typeof most === 'number' ? Math.round(most * SHARE_OF_MAX) : 0;
  const answer = completion * CHARACTERS_PER_TOKEN;
  sum.bytes.items += length + answer + BESIDE;
  if (!isAsked) return;
  const due = dueOf(sum, url);
  sum.calls += 1;
  due.calls += 1;
  due.prompt += Math.round(length / CHARACTERS_PER_TOKEN);
  due.completion += completion;
  sum.bytes.ledger += length + answer + BESIDE;
}
