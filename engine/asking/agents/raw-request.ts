/**
 * Raw requests: each is sent as it is, and what the server said is kept as it came, refusals too. Nothing is asked of an
 * answer but that it is whole: the request is somebody else's, and so is the judgement of what came of it.
 */

import { hashOfText } from '../../answers/answers-of-line.ts';
import { begin, newWorkload, type Workload } from '../../core/item/account.ts';
import { type Begins, type Call, CallFailure, type OnRecord, type Pool } from '../../core/item/call.ts';
import { ItemFailure } from '../../core/item/failure.ts';
import {
  type Item,
  isAnswered,
  type RawRequest,
  type Response,
  type Step,
  type Usage,
} from '../../core/item/item.ts';
import { textOfBody, troubleIn } from '../../core/item/response.ts';
import { isObject } from '../../core/json/pointer.ts';
import { show } from '../../core/json/show.ts';
import { isForm, whyNoForm } from '../endpoints/form-body.ts';
import { FailedQuestions, questionOf, type Unanswered } from './asked-once.ts';
import { addTexts } from './begins.ts';
import { keyedBody } from './request-body.ts';

export interface RequestOptions {
  /** bytes that a line may have */
  maxLine: number;
  /** told what each item lacks, and what it has got */
  workload?: Workload | undefined;
  /** equal requests have one answer */
  once?: boolean | undefined;
}

/** Of an item beside its request and its answer. */
const BESIDE = 4096;
/** What may stand in a path and its query (RFC 3986, 3.3 and 3.4). */
const PATH = /^\/(?!\/)[\w\-.~!$&'()*+,;=:@%/?[\]]{0,2000}$/;

/** Asks the request of an item, unless its answer is there. A failed step is asked again under the same key. */
export function requester(
  pool: Pool,
  { maxLine, workload = newWorkload(), once = false }: RequestOptions,
): (item: Item) => Promise<Item> {
  const failed = new FailedQuestions();
  return async item => {
    const { request } = item;
    if (typeof request !== 'object' || request === null) {
      throw new ItemFailure(
        'not-an-item',
        'expected a request {method, url, body}, found none; fw ingest --format openai-batch makes such items',
      );
    }
    if (item.steps?.some(isAnswered)) return item;
    refuseUnsendable(request);
    const due = begin(workload, 1);
    try {
      return await asked(item, request);
    } finally {
      due.end();
    }
  };

  async function asked(item: Item, request: RawRequest): Promise<Item> {
    const { failure: _failure, steps: _steps, ...kept } = item;
    const shared = once ? sharedBy(item, request) : null;
    const name = shared ?? (item.id as string);
    let call = callOf(name, request, 0);
    const withStep = (said: Pick<Step, 'rung' | 'response' | 'sha256'>, used?: Usage): Item => {
      const { key, agent, round } = call;
      const rest = { saw: 'clean' as const, repairs: [], calls: [key], attempts: 1 };
      const usage = { prompt: used?.prompt ?? 0, completion: used?.completion ?? 0 };
      const of = { ...(round > 0 && { round }), ...(shared !== null && { shared }) };
      return { ...kept, steps: [{ agent, ...said, ...rest, ...of, usage }] };
    };
    const failing = (why: Omit<Unanswered, 'call'>): ItemFailure => {
      const { code, message, response, usage } = why;
      const step = withStep({ ...(response && { response }), rung: 'failed' }, usage);
      return new ItemFailure(code, message, { agent: call.agent, item: step });
    };
    const fail = (why: Omit<Unanswered, 'call'>): ItemFailure => {
      failed.note(shared, { call, ...why });
      return failing(why);
    };
    const before = failed.get(shared);
    if (before !== undefined) {
      call = before.call;
      throw failing(before);
    }
    try {
      let { response, answer, trouble } = await answered(call, request);
      // What is on record without an answer in it is asked again, once in a run, under a key of its own. Who waited for an
      // equal request hears of this run's answer, and after the one who asked.
      while (trouble !== null && answer.replayed && failed.get(shared) === undefined) {
        call = callOf(name, request, call.round + 1);
        ({ response, answer, trouble } = await answered(call, request));
      }
      const { text, usage } = answer;
      const length = call.body.length + Buffer.byteLength(text) + BESIDE;
      if (length > maxLine) {
        throw failing({
          code: 'line-too-long',
          message: `expected a request and its answer of at most ${maxLine} bytes (--max-line), found ${length}; the answer is in the ledger: with a larger --max-line, here and behind, it is not asked again`,
        });
      }
      pool.judge(call.key, trouble ? 'failed' : 'clean', trouble?.code, 0);
      if (trouble) throw fail({ ...trouble, response, usage });
      const sha256 = hashOfText(textOfBody(response.body));
      return withStep({ response, sha256, rung: 'clean' }, usage);
    } catch (error) {
      if (!(error instanceof CallFailure)) throw error;
      const { code, message, response } = error;
      throw fail({ code, message, response });
    }
  }

  /** The name of its question; null where it is asked alone, as it was in an earlier run that has its answer. */
  function sharedBy(item: Item, request: RawRequest): string | null {
    const question = questionOf(item);
    if (question === null || !pool.onRecord?.has(callOf(item.id as string, request, 0).key)) return question;
    return null;
  }

  async function answered(call: Call, request: RawRequest) {
    const answer = await pool.call(call);
    const response: Response = { status_code: 200, body: answer.body ?? JSON.parse(answer.text) };
    return { answer, response, trouble: troubleIn(response, undefined, request) };
  }
}

/** The agent of such a call is the URL: what is asked there takes about as long. */
function callOf(id: string, { url, body }: RawRequest, round: number): Call {
  const identity = { id, agent: url, round, attempt: 1 };
  const { bytes, key } = keyedBody(JSON.stringify(body), identity);
  return {
    path: url,
    model: typeof body.model === 'string' ? body.model : '',
    raw: true,
    body: bytes,
    head: '',
    tail: '',
    key,
    item: id,
    ...identity,
  };
}

/** What requests begin with; where a run goes on it says of each whether its answer is on record. */
export function beginsBeside(onRecord: OnRecord | undefined): (item: Item) => Begins | null {
  if (!onRecord?.answers) return beginsOf;
  return item => {
    const begins = beginsOf(item);
    if (begins === null || !isObject(item.request) || !isObject(item.request.body)) return begins;
    const { key } = callOf(begins.name, item.request as unknown as RawRequest, 0);
    return { ...begins, isKnown: onRecord.has(key) };
  };
}

/**
 * What a request begins with, in the order in which chat templates write it: tools, instructions, then the messages. Of an item that is
 * none: its own messages, or its prompt.
 */
export function beginsOf(item: Item): Begins | null {
  const { id, request } = item;
  if (typeof id !== 'string') return null;
  if (!isObject(request) || !isObject(request.body))
    return { model: '', name: id, texts: () => textsOf(item.prompt ?? item.messages) };
  const { model, tools, system, instructions, messages, prompt, input, query } = request.body;
  const texts = (): string[] => {
    const all = tools === undefined ? [] : [JSON.stringify(tools)];
    addTexts(all, system ?? instructions);
    addTexts(all, messages ?? prompt ?? input ?? query);
    return all;
  };
  return { model: typeof model === 'string' ? model : '', name: id, texts };
}

function textsOf(value: unknown): string[] {
  const texts: string[] = [];
  addTexts(texts, value);
  return texts;
}

function refuseUnsendable({ method, url, body }: RawRequest): void {
  const refuse = (message: string): never => {
    throw new ItemFailure('bad-request', message);
  };
  if (method !== 'POST') refuse(`expected the method POST, found ${show(method)}`);
  if (!PATH.test(url))
    refuse(`expected a path of the server, such as /v1/chat/completions, found ${show(url)}`);
  const { stream, background } = body;
  if (background === true)
    refuse('expected no "background": true, whose answer is fetched later; a line has one whole answer');
  if (stream !== undefined && stream !== null && stream !== false)
    refuse(`expected no stream, found "stream": ${show(stream)}; a line has one whole answer`);
  const why = isForm(url) ? whyNoForm(body) : null;
  if (why !== null) refuse(why);
}
