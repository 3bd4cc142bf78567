/**
 * What the pool asks the ledger, and what it tells it: answers that need no request, and each try that reached a server,
 * with what became of it.
 */
import type { Answer, Call } from '../../core/item/call.ts';
import { Fatal } from '../../core/item/failure.ts';
import type { Usage } from '../../core/item/item.ts';
import type { Clock } from '../endpoints/pool-clock.ts';
import { noneNamed } from '../endpoints/settings.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { CallRecord, Outcome } from '../ledger/ledger-format.ts';

/** A call that was sent, and where. */
type Sent = Readonly<{ call: Call; sentAt: number }>;
type Where = Readonly<{ url: string; models: ReadonlySet<string> }>;

/** How a try may have ended on record, if not with an answer. */
export type FailedOutcome = Exclude<Outcome, 'answer'>;

/** The model that a server takes where a request names none: the one that it lists first. */
export function usualModel({ models }: Pick<Where, 'models'>): string {
  const [first = ''] = models;
  return first;
}

/** `owner`: for whom calls are asked that name nobody; `onTry` is told each try that has ended. */
export function recordingOf(
  ledger: Ledger | undefined,
  clock: Clock,
  { owner = '', onTry }: { owner?: string; onTry?: ((record: CallRecord) => void) | undefined } = {},
) {
  const whose = owner === '' ? undefined : owner;
  // key by key, for to spread a call costs ten times as much
  const recordOf = (
    { call, sentAt }: Sent,
    { url, models }: Where,
    outcome: Outcome,
    { answer, detail, usage }: { answer?: Answer; detail?: string; usage?: Usage | undefined },
  ): CallRecord => ({
    key: call.key,
    outcome,
    time: clock.date(),
    endpoint: url,
    model: call.anywhere ? usualModel({ models }) : call.model,
    unnamed: call.unnamed,
    item: call.item,
    agent: call.agent,
    round: call.round,
    attempt: call.attempt,
    ms: clock.now() - sentAt,
    caller: call.caller ?? whose,
    caller_key: call.callerKey,
    arm: call.arm,
    trace: call.trace,
    ttft: answer?.ttft,
    detail,
    finish: answer?.finish,
    // a stream that was broken off has cost what came of it, and a bad answer what its server says
    usage: answer === undefined ? (call.sink?.used ?? usage) : answer.usage,
    answer: answer?.text,
    whole: answer?.whole,
    logprobs: answer?.logprobs,
    tool_calls: answer?.tool_calls,
    reasoning: answer?.reasoning,
    reasoning_whole: answer?.reasoning_whole,
    path: call.path,
    body: call.body,
    head: call.head,
    tail: call.tail,
    raw: call.raw,
    redact: call.redact,
  });
  return {
    /** `done` is called once the answer is written, at once where there is no ledger, or with the error that prevented it. */
    answer(ticket: Sent, endpoint: Where, answer: Answer, done: (error?: Fatal) => void): void {
      if (ledger === undefined) return done();
      const record = recordOf(ticket, endpoint, 'answer', { answer });
      onTry?.(record);
      ticket.call.tried?.(record);
      ledger.append(record, done);
    },
    failure(ticket: Sent, endpoint: Where, outcome: FailedOutcome, detail: string, usage?: Usage): void {
      if (ledger === undefined) return;
      const record = recordOf(ticket, endpoint, outcome, { detail, usage });
      onTry?.(record);
      ticket.call.tried?.(record);
      ledger.append(record);
    },
  };
}

export type Recording = ReturnType<typeof recordingOf>;

/**
 * Why a call that is not on record cannot be asked; null where it can. The ledger's file is made here: before anything
 * is paid for, and before sockets have taken every descriptor.
 */
export function whyNotAsked(
  ledger: Ledger | undefined,
  endpoints: readonly unknown[],
  { item, agent }: Call,
): Fatal | null {
  const why = ledger?.closed ?? (endpoints.length === 0 ? noneNamed() : ledger?.ready());
  if (!why) return null;
  const { exit, message } = why;
  return new Fatal(
    exit,
    `the call of ${agent} for item ${JSON.stringify(item)} is not on record: ${message}`,
  );
}

type Settle = Parameters<ConstructorParameters<typeof Promise<Answer>>[0]>;

export type KnownAnswers = ReturnType<typeof createKnownAnswers>;

/** A later run replays one answer to all who ask the same, so in this run the second asker waits for the first. */
export function createKnownAnswers(ledger: Ledger | undefined) {
  const onTheWay = new Map<string, Promise<Answer>>();
  let replayed = 0;
  let listening = 0;
  return {
    /** calls that wait for the answer to the same call of somebody else: they take no place at any endpoint */
    get listening(): number {
      return listening;
    },
    /** calls that were answered so; null without a ledger */
    get replayed(): number | null {
      return ledger ? replayed : null;
    },
    /** null where the call has to be sent. `usual`: the models that endpoints take where a request names none */
    find({ key, model, unnamed, anywhere }: Call, usual: () => string[]): Promise<Answer> | null {
      const answer = ledger?.find(key, unnamed && (anywhere ? usual() : [model]));
      const same = answer ? Promise.resolve(answer) : onTheWay.get(key);
      if (same === undefined) return null;
      replayed++;
      if (answer) return same;
      listening++;
      const over = (): void => void listening--;
      same.then(over, over);
      return same.then(given => ({ ...given, replayed: true }));
    },
    /** `send` puts the call on its way, and may settle it at once. */
    sent({ key }: Call, send: (...settle: Settle) => void): Promise<Answer> {
      let resolve: Settle[0] | undefined;
      let reject: Settle[1] | undefined;
      const answer = new Promise<Answer>((done, failed) => {
        resolve = done;
        reject = failed;
      });
      onTheWay.set(key, answer);
      send(resolve as Settle[0], reject as Settle[1]);
      return answer;
    },
    /** It was answered, and the ledger has it; or it failed. */
    over: ({ key }: Call): void => void onTheWay.delete(key),
  };
}
