/**
 * What came of a try, read from its reply: the model's answer, or how it failed. A reply that is another call's, or
 * nobody's, is a failure. Where it names another model a person is told, for that may be an alias, or not.
 *
 * A server or a proxy that mixes its replies up gives a call the answer of another one, which HTTP does not show: the
 * reply is whole and on the right connection. So each try has an X-Request-Id. vLLM repeats it in the id of the
 * completion, and others in a header. An id is new for every try, because a server that still works on the first try
 * refuses the same id or mixes the two up. What it names is the key of the call, so that a proxy which kept the answer
 * to the same question may give it again.
 */
import { randomBytes } from 'node:crypto';
import { type Answer, type Call, CallFailure, type ReplySink } from '../../core/item/call.ts';
import type { Usage } from '../../core/item/item.ts';
import type { Say } from '../../core/item/say.ts';
import { isObject } from '../../core/json/pointer.ts';
import { readCompletion, readJson, readUsage } from '../endpoints/completion.ts';
import {
  causeOf,
  hide,
  isTooLong,
  type Key,
  lengthNumbers,
  NoAnswerInTime,
  oneLine,
  serverWords,
  TooLong,
  unsentFor,
} from '../endpoints/endpoint-words.ts';
import { formOf, isForm } from '../endpoints/form-body.ts';
import type { Exchange, Reply, Request } from '../endpoints/wire.ts';
import { isOfKey } from './pool-ending.ts';
import type { Endpoint } from './pool-state.ts';
import { refusedKey } from './probe.ts';
import { checksOf, pathBelow, readRaw, refusalIn } from './raw.ts';
import { type FailedAttempt, kindOfStatus } from './reactions.ts';

export interface AnsweredAttempt {
  kind: 'answer';
  answer: Answer;
}

/** Characters of a key that name its call: 64 bits. */
const MARK_LENGTH = 16;
/** of this process, so that no other one's tries have the same ids */
const OWN = randomBytes(4).toString('hex');
const ID_FORM = /fw-([0-9a-f]{16})-[0-9a-f]{8}-[0-9a-z]{1,12}/;
/** Characters of an id that are read. */
const MAX_ID_LENGTH = 256;
/** An endpoint that repeats ids in more than nine of ten answers: one without an id is not believed. */
const RARELY = 0.1;
/** Kinds of refusal that are told. A server that words each one differently must not flood the terminal. */
const MAX_TOLD_REFUSALS = 10;

const markOf = (key: string): string => key.slice(0, MARK_LENGTH);
let tries = 0;

/** The request of a try of `call`, with `body` as it goes out and an id of its own. */
export function requestOf(call: Call, body: Buffer, { prefix }: Endpoint): Request {
  const { path, key, raw, sink, requestId } = call;
  const own = `fw-${markOf(key)}-${OWN}-${(++tries).toString(36)}`;
  // ours comes first: what somebody else has made up is not read as one of ours
  const id = requestId === undefined ? own : `${own}.${requestId}`;
  const where = raw ? pathBelow(prefix, path) : prefix + path;
  const form = raw && isForm(path) ? formOf(body) : { body };
  return { method: 'POST', path: where, ...form, id, sink, headers: call.headers?.() };
}

/** Aborts the exchange whose answer another call was given. */
class Crossed extends Error {
  override name = 'Crossed';
  readonly code = 'FW_CROSSED';
  constructor() {
    super('its answer was given to another call');
  }
}

const CROSSED = 'HTTP 200 with the answer of another call, as the request id in it says';
const WITHOUT_ID = 'HTTP 200 without the request id, from a server that repeats it: probably a late answer';

interface ReadingOptions {
  endpoints: readonly Endpoint[];
  maxModelLength: number | undefined;
  warn: Say;
}

/**
 * Reads what came of a try, counts an answer, and tells a person what is news. The connection of an answer that is
 * another call's is broken off: whatever comes on it from now on may be one too late.
 */
export class ReplyReader {
  readonly #options: ReadingOptions;
  readonly #told = new Set<string>();
  readonly #toldRefusals = new Set<string>();
  readonly #toldUnchecked = new Set<Endpoint>();

  constructor(options: ReadingOptions) {
    this.#options = options;
  }

  read(
    endpoint: Endpoint,
    call: Call,
    got: Reply | Error,
    exchange: Exchange | null,
  ): AnsweredAttempt | FailedAttempt {
    const { key } = endpoint;
    if (call.sink?.enough) return endOf(call.sink);
    if (got instanceof Error) return failureIn(endpoint, got, call, exchange);
    if (got.status !== 200) return this.#failureOf(endpoint, call, got);
    if (call.sink !== undefined && exchange?.passedOn) return endOf(call.sink);
    const read = call.raw ? readRaw(got.body, key) : readCompletion(got.body, key);
    if (typeof read === 'string')
      return { kind: 'bad-answer', label: 'bad answer', cause: read, ...usedBy(got.body, key) };
    const mark = markIn([read.id, got.requestId], call.key);
    if (mark !== null && mark !== markOf(call.key)) {
      const failure = { ...crossed(CROSSED, exchange), ...used(read.answer.usage) }; // before the others: each of them that ends looks for a free connection
      this.#tellOnce(endpoint, 'gave a call the answer of another one: both are asked again');
      breakOff(this.#options.endpoints, mark);
      return failure;
    }
    const { counts } = endpoint;
    const checks = call.raw ? checksOf(endpoint, call.path) : counts;
    if (mark !== null) checks.checked++;
    else if (checks.unchecked++ < RARELY * checks.checked) {
      this.#tellOnce(
        endpoint,
        'gave an answer without its request id, which it normally repeats: the call is sent again',
      );
      return { ...crossed(WITHOUT_ID, exchange), ...used(read.answer.usage) };
    } else if (!this.#toldUnchecked.has(endpoint)) {
      this.#toldUnchecked.add(endpoint);
      this.#options.warn(
        `${endpoint.url} does not return X-Request-Id, so an answer to the wrong call would go unnoticed`,
        { event: 'endpoint-without-ids', level: 'info', endpoint: endpoint.url },
      );
    }
    const { model } = read;
    if (model !== undefined && model !== call.model && !call.anywhere && counts.otherModel++ === 0)
      this.#tellOnce(endpoint, otherModel(model, call.model, key));
    return { kind: 'answer', answer: read.answer };
  }

  #tellOnce({ url }: Endpoint, what: string): void {
    const news = `${url} ${what}`;
    if (this.#told.has(news)) return;
    this.#told.add(news);
    this.#options.warn(news, { event: 'endpoint-answers', level: 'warn', endpoint: url });
  }

  #failureOf(endpoint: Endpoint, call: Call, reply: Reply): FailedAttempt {
    const { raw } = call;
    const { key } = endpoint;
    const { status, body, retryAfter } = reply;
    const kind = kindOfStatus(status);
    if (kind !== 'refused') {
      const words = serverWords(body, key, 120);
      const cause = `HTTP ${status}${words && ` "${words}"`}`;
      return { kind, label: `HTTP ${status}`, cause, status, retryAfter };
    }
    const words = serverWords(body, key);
    const response = raw && refusalIn(reply, key);
    if (isTooLong(status, body)) {
      const limit =
        this.#options.maxModelLength === undefined
          ? ''
          : `the model takes ${this.#options.maxModelLength} tokens`;
      const numbers = [lengthNumbers(body), limit].filter(text => text !== '').join('; ');
      const cause = `The prompt does not fit${numbers && ` (${numbers})`}; the server says: "${words}"`;
      return {
        kind: 'too-long',
        label: 'refused',
        cause,
        failure: new CallFailure('prompt-too-long', cause, response),
      };
    }
    if (raw && lacksPath(status, words)) {
      const cause = `${endpoint.url} does not answer POST ${oneLine(call.path, 200)} (HTTP ${status}${words && ` "${words}"`}): name a server that has this path, or start this one with a model that does`;
      const failure = new CallFailure('no-such-path', cause, response);
      return { kind, label: 'refused', cause, failure };
    }
    const said = words === '' ? '' : `: "${words}"`;
    const ofKey = isOfKey(status);
    const what = ofKey ? refusedKey(status, key) : `HTTP ${status}`;
    const cause = what + said;
    this.#tellRefusal(endpoint, `${status} ${words.replace(/\d+/g, '#')}`, cause);
    return {
      kind,
      label: 'refused',
      cause,
      failure: new CallFailure('call-refused', cause, response, ofKey),
    };
  }

  #tellRefusal({ url }: Endpoint, kind: string, message: string): void {
    if (this.#toldRefusals.has(kind) || this.#toldRefusals.size > MAX_TOLD_REFUSALS) return;
    this.#toldRefusals.add(kind);
    const isLast = this.#toldRefusals.size > MAX_TOLD_REFUSALS;
    this.#options.warn(
      isLast ? 'further kinds of refusals are only counted' : `${url} refused a request: ${message}`,
      { event: 'endpoint-refuses', level: 'info', endpoint: url },
    );
  }
}

/** Whether a refusal is about the path: one of an unknown model, or answer, names that. vLLM says 501 where its model has no such path. */
const lacksPath = (status: number, words: string): boolean =>
  status === 405 || status === 501 || (status === 404 && !/model|\bid\b/i.test(words));

function failureIn({ key }: Endpoint, error: Error, { raw }: Call, exchange: Exchange | null): FailedAttempt {
  if (error instanceof CallFailure)
    return { kind: 'interrupted', label: 'interrupted', cause: error.message, failure: error };
  const cause = causeOf(error, key);
  if (exchange?.passedOn) return brokenStream(cause);
  const unsent = unsentFor(error);
  if (unsent) {
    const kind = unsent === 'no-socket' ? unsent : 'unreachable';
    return { kind, label: 'not connected', cause };
  }
  if (error instanceof NoAnswerInTime) return { kind: 'timeout', label: 'timeout', cause };
  if (error instanceof Crossed) return { kind: 'crossed', label: 'crossed', cause };
  if (error instanceof TooLong && error.isBody && raw) {
    const failure = new CallFailure('answer-too-long', `Expected a shorter answer, found ${cause}.`);
    return { kind: 'too-large', label: 'bad answer', cause, failure };
  }
  if (error instanceof TooLong) return { kind: 'bad-answer', label: 'bad answer', cause };
  return { kind: 'broken-off', label: 'transport', cause };
}

function crossed(cause: string, exchange: Exchange | null): FailedAttempt {
  exchange?.abort(new Crossed());
  return { kind: 'crossed', label: 'crossed', cause };
}

/** What a reply that is no answer says that it used; nothing where it says nothing. */
function usedBy(body: Buffer, key: Key | undefined): Pick<FailedAttempt, 'usage'> {
  const read = readJson(body, key);
  return typeof read === 'string' || !isObject(read.reply) ? {} : used(readUsage(read.reply.usage));
}

const used = (usage: Usage): Pick<FailedAttempt, 'usage'> =>
  usage.prompt + usage.completion > 0 ? { usage } : {};

function endOf(sink: ReplySink): AnsweredAttempt | FailedAttempt {
  const answer = sink.end();
  return typeof answer === 'string' ? brokenStream(answer) : { kind: 'answer', answer };
}

/** What a sink has the beginning of is not asked again. */
function brokenStream(cause: string): FailedAttempt {
  const failure = new CallFailure('call-failed', `The answer broke off: ${cause}`);
  return { kind: 'broken-stream', label: 'transport', cause, failure };
}

/**
 * The mark of the call that the ids in a reply name: of the completion, and of the header. One that is not `key`'s
 * decides. null where they name none: most servers repeat no id, and proxies write their own.
 */
function markIn(ids: readonly (string | undefined)[], key: string): string | null {
  let found: string | null = null;
  for (const id of ids) {
    const mark = id === undefined ? undefined : ID_FORM.exec(id.slice(0, MAX_ID_LENGTH))?.[1];
    if (mark === undefined) continue;
    if (mark !== markOf(key)) return mark;
    found = mark;
  }
  return found;
}

/** Breaks off the calls under way that `mark` names: what comes on their connections may be anybody's. */
function breakOff(endpoints: readonly Endpoint[], mark: string): void {
  for (const { running } of endpoints) {
    const named = running.filter(({ call }) => markOf(call.key) === mark);
    for (const { exchange } of named) exchange?.abort(new Crossed());
  }
}

function otherModel(said: string, asked: string, key: Key | undefined): string {
  const shown = JSON.stringify(oneLine(hide(said, key), 200));
  return `answers as the model ${shown} where ${JSON.stringify(asked)} was asked: an alias or a snapshot of it, or another model?`;
}
