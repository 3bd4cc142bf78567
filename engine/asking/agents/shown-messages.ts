/**
 * What the agents of a finished item were sent, made again from the item and the agent files, for a person to read: the
 * messages, by the code that asks. How they were sampled is no part of it, and the files may have changed since.
 */
import { ItemFailure } from '../../core/item/failure.ts';
import type { Item, Rejected, Step } from '../../core/item/item.ts';
import { isObject } from '../../core/json/pointer.ts';
import { arrangementOf, isUsual, Shown, seenLast, turnsOf } from './arrangement.ts';
import { asksAgain, checkOf, readReply } from './form.ts';
import type { Agents } from './load-agents.ts';
import { bodies, openingsOf } from './request-body.ts';
import { complaintOf } from './rounds.ts';

export interface ShownMessages {
  /** The messages of the first attempt at the answer at `/steps/1` or `/decision`. Throws ItemFailure where they cannot be made. */
  messagesTo(item: Item, at: string): unknown[];
  /** What an agent was told of an answer that was refused; null where it was asked afresh. */
  complaintAbout(agent: string, refusal: Rejected): string | null;
}

/** Exit 65 where a persona is no template and says that it is one. */
export async function shownMessages(agents: Agents): Promise<ShownMessages> {
  const openings = await openingsOf(agents, undefined);
  return {
    messagesTo(item, at) {
      const { steps = [], decision, ordering } = item;
      const nth = at === '/decision' ? -1 : Number(at.slice('/steps/'.length));
      const step = nth < 0 ? decision : steps[nth];
      const agent = agents.byKey.get(step?.agent ?? '');
      if (agent === undefined)
        throw new ItemFailure('unknown-agent', `expected an agent of ${agents.folder}, found ${step?.agent}`);
      const arrangement = arrangementOf(item);
      const order = ordering ?? steps.map(({ agent: key }) => key);
      const all = nth < 0 && isUsual(arrangement) ? steps.map(({ agent: key }) => key) : order;
      const sees = nth < 0 ? seenLast(all, arrangement) : (turnsOf(order, arrangement)[nth]?.sees ?? []);
      // what was answered behind it was not there yet, and may have failed
      const before = nth < 0 ? steps : steps.slice(0, Math.max(nth, ...sees.map(turn => turn + 1)));
      expectAnswers(before, sees);
      const context = new Shown(item, before, { agents, arrangement, ordering: all }).to(sees);
      const seen = () => sees.map(turn => before[turn] as Step);
      const { opening } = openings(agent, item, sees.length > 0, seen);
      const asked = { context, opening, temperature: 0, seed: 0 };
      const { body } = bodies(agent, '', 'off').bodyOf(asked, { id: '', agent: '', round: 0, attempt: 1 });
      return (JSON.parse(body.toString()) as { messages: unknown[] }).messages;
    },
    complaintAbout(key, refusal) {
      const agent = agents.byKey.get(key);
      if (agent === undefined || refusal.code === 'repeats-itself') return null;
      const check = checkOf(agent);
      const { output } = readReply({ text: refusal.raw, finish: 'stop' }, check);
      if (isObject(output) && asksAgain(agent.askAgain, output)) return null;
      return complaintOf(refusal, check);
    },
  };
}

function expectAnswers(steps: readonly Step[], sees: readonly number[]): void {
  const lacking = sees.find(turn => steps[turn]?.output === undefined);
  if (lacking !== undefined)
    throw new ItemFailure('no-valid-answer', `expected the answer of turn ${lacking + 1}, found none`);
}
