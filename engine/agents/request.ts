/**
 * Raw requests: each is sent as it is, and what the server said is kept as it came, refusals too. Nothing is asked of an
 * answer but that it is whole: the request is somebody else's, and so is the judgement of what came of it.
 */

import { hashOfText } from '../answer/answer-limits.ts';
import { textOfBody } from '../item/body-text.ts';
import { type Call, CallFailure, type Pool } from '../item/call.ts';
import type { Code } from '../item/codes.ts';
import { ItemFailure } from '../item/failure.ts';
import { type Item, isAnswered, type RawRequest, type Response, type Step } from '../item/item.ts';
import { begin, newWorkload, type Workload } from '../item/workload.ts';
import { show } from '../json/show.ts';
import { keyedBody } from './body.ts';

export interface RequestOptions {
  /** bytes that a line may have */
  maxLine: number;
  /** told what each item lacks, and what it has got */
  workload?: Workload | undefined;
}

/** Of an item beside its request and its answer. */
const BESIDE = 4096;
/** What may stand in a path and its query (RFC 3986, 3.3 and 3.4). */
const PATH = /^\/(?!\/)[\w\-.~!$&'()*+,;=:@%/?[\]]{0,2000}$/;

/** Asks the request of an item, unless its answer is there. A failed step is asked again under the same key. */
export function requester(
  pool: Pool,
  { maxLine, workload = newWorkload() }: RequestOptions,
): (item: Item) => Promise<Item> {
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
    const call = callOf(item.id as string, request);
    const { failure: _failure, steps: _steps, ...kept } = item;
    const withStep = (step: Step): Item => ({ ...kept, steps: [step] });
    const rest = { saw: 'clean' as const, repairs: [], calls: [call.key], attempts: 1 };
    const fail = (code: Code, message: string, response?: Response): ItemFailure => {
      const { agent } = call;
      const usage = { prompt: 0, completion: 0 };
      const step: Step = { agent, ...(response && { response }), rung: 'failed', ...rest, usage };
      return new ItemFailure(code, message, { agent, item: withStep(step) });
    };
    try {
      const { text, body = JSON.parse(text), usage } = await pool.call(call);
      const length = call.body.length + Buffer.byteLength(text) + BESIDE;
      if (length > maxLine) {
        throw fail(
          'line-too-long',
          `expected a request and its answer of at most ${maxLine} bytes (--max-line), found ${length}; the answer is in the ledger: with a larger --max-line, here and behind, it is not asked again`,
        );
      }
      pool.judge(call.key, 'clean', undefined, 0);
      return withStep({
        agent: call.agent,
        response: { status_code: 200, body },
        sha256: hashOfText(textOfBody(body)),
        rung: 'clean',
        ...rest,
        usage: { prompt: usage.prompt, completion: usage.completion },
      });
    } catch (error) {
      if (!(error instanceof CallFailure)) throw error;
      throw fail(error.code, error.message, error.response);
    }
  }
}

/** The agent of such a call is the URL: what is asked there takes about as long. */
function callOf(id: string, { url, body }: RawRequest): Call {
  const identity = { id, agent: url, round: 0, attempt: 1 };
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

function refuseUnsendable({ method, url, body }: RawRequest): void {
  const refuse = (message: string): never => {
    throw new ItemFailure('bad-request', message);
  };
  if (method !== 'POST') refuse(`expected the method POST, found ${show(method)}`);
  if (!PATH.test(url))
    refuse(`expected a path of the server, such as /v1/chat/completions, found ${show(url)}`);
  const { stream } = body;
  if (stream !== undefined && stream !== null && stream !== false)
    refuse(`expected no stream, found "stream": ${show(stream)}; a line has one whole answer`);
}
