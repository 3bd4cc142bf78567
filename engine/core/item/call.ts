/**
 * The contract between what asks (engine/asking/agents) and what carries (engine/asking/pool). It lives here, so that
 * engine/flow can hand a pool to a stage without importing one.
 */
import type { Code } from './codes.ts';
import type { Beside, Response, Rung, TokenLogprob, Usage, WholeAnswer } from './item.ts';

/** One request to a model. `key` names the call for the ledger: the same key is the same question. */
export interface Call {
  /** path below the endpoint's base URL, such as `/chat/completions` */
  path: string;
  /** the model that the body names: only endpoints that serve it are asked */
  model: string;
  /**
   * The body is somebody else's (`fw request`): `path` is a path of the server, such as `/v1/embeddings`; the answer's text
   * is the whole body of the reply; and a refusal speaks of this call alone. One without a model may be asked anywhere.
   */
  raw?: true;
  /** set by the pool: the request names no model, and `model` is the one that the run means */
  unnamed?: true;
  /** set by the pool: any endpoint will do, and it is asked for the model that it has */
  anywhere?: true;
  /** the request body as it goes over the wire: JSON in UTF-8 */
  body: Buffer;
  /** what the body begins and ends with and many calls share; between them are its own messages and sampling */
  head: string;
  tail: string;
  key: string;
  /** the id of the item, or the name of a question that several items of a row share */
  item: string;
  /** what the items of one row have in common, where there are several: they go to one endpoint, for its prefix cache */
  row?: string | undefined;
  /** the first call of its item: nothing is cached for it, and nobody waits behind it */
  begins?: boolean | undefined;
  agent: string;
  round: number;
  /** 1-based, within the round */
  attempt: number;
  /** Somebody waits for the answer, for so long: it goes before all others, and may take the places that those leave free. */
  live?: LiveLimits;
  /** Of a live call: takes the reply as it comes. Absent: the answer is read whole. */
  sink?: ReplySink;
  /** of a live call, for the record: the client, the id of its key, and which of several models the name that it used became */
  caller?: string;
  callerKey?: string;
  arm?: string;
  /** of a live call: the id that its request is known by, which servers see behind that of the try; what a header can carry */
  requestId?: string;
  /** of a live call: the trace that it belongs to, for the record, and further headers of its next try, by turns a name and a value */
  trace?: string;
  headers?: () => readonly string[];
  /** of a live call: told each try that has ended, as it goes on record */
  tried?: (one: Tried) => void;
  /** texts of the item that a ledger must not keep */
  redact?: readonly string[];
}

/** A try that has ended. */
export interface Tried {
  endpoint: string;
  /** `answer`, or in words what stood in its way */
  outcome: string;
  /** ms since 1970 when it ended, and from sending to the end */
  time: number;
  ms: number;
  /** ms to the first token of a streamed answer */
  ttft?: number | undefined;
  finish?: string | undefined;
  usage?: Usage | undefined;
}

/** What a live call may take, in ms where nothing else is said. */
export interface LiveLimits {
  /** in which no server has it: before its first try, and between tries */
  place: number;
  /** at one server, until the first byte of a stream */
  firstByte: number;
  /** in all, until the answer is there, or the first byte of a stream */
  answer: number;
  /** of a stream, from its first byte to its last */
  stream: number;
  /** how many tries may fail; a refusal of a full server is none */
  tries: number;
}

/** Takes a reply with HTTP 200 as it comes. From `head` on, which the first byte of the body brings, the call is asked nowhere else. */
export interface ReplySink {
  /** `flow` holds the server back while what comes cannot be passed on. */
  head(headers: Readonly<Record<string, string | string[] | undefined>>, flow: Flow): void;
  data(chunk: Buffer): void;
  /** The reply has ended: what it came to, or in words why it is no answer. */
  end(): Answer | string;
  /** when the first token came, as performance.now() says it; null before that, and where nobody knows */
  readonly firstAt: number | null;
  /** set by the pool: is told once, when it comes */
  onFirst?: () => void;
  /** It has had enough and cancelled the call: what has come is the answer. */
  readonly enough: boolean;
  /** Tokens of a reply that has begun and was broken off, as far as it came; null where nothing has come. */
  readonly used?: Usage | null;
  /** Whoever it passes the reply on to does not take it now: that nothing comes is not the server's doing. */
  readonly isHeld?: boolean;
}

export interface Flow {
  pause(): void;
  resume(): void;
}

/** In place of finish_reason where message.refusal is set: the text is then what the model said instead of an answer. */
export const REFUSED = 'refusal';

export interface Answer extends Beside {
  text: string;
  /** of a raw call that was just answered: what the text is as JSON, which was read to see that it is whole */
  body?: unknown;
  /** there where `text` is only the beginning of an answer that is too long to be of use */
  whole?: WholeAnswer;
  /** there where the server gave them */
  logprobs?: TokenLogprob[];
  /** finish_reason as the server said it; only `stop` is whole. `REFUSED` where the model refused to answer. */
  finish: string;
  usage: Usage;
  /** of a reply that was handed on: ms from sending to its first token, where that is known */
  ttft?: number;
  replayed: boolean;
}

/** What a stage asks with, for the record: hashes, so that it is short and holds no persona that a study may not publish. */
export interface AsksWith {
  stage: string;
  agents: Record<string, { persona: string; schema: string; sampling: string; model?: string }>;
  /** of the options, those that change requests */
  options: Record<string, string | number | boolean>;
  /** version of the rules by which its answers are judged; absent in ledgers from before version 2 */
  rules?: number;
}

/** An answer of an earlier run, as the server sent it. */
export interface RecordedAnswer extends Beside {
  agent: string;
  text: string;
  whole?: WholeAnswer;
  logprobs?: TokenLogprob[];
  finish: string;
}

/** A call that no retry could save. Its code goes into the item's failure as it is. */
export class CallFailure extends Error {
  override name = 'CallFailure';
  readonly code: Code;
  /** of a raw call that a server refused: what it answered */
  readonly response: Response | undefined;
  /** it was refused because of the key, not of the request (401, 403) */
  readonly ofKey: boolean;
  constructor(code: Code, message: string, response?: Response, ofKey = false) {
    super(message);
    this.code = code;
    this.response = response;
    this.ofKey = ofKey;
  }
}

/** What a ledger has of answers. */
export interface OnRecord {
  /** the last round of --retry-failed that had an answer when the run began; 0 where none had */
  readonly lastRound: number;
  /** answers when the run began; absent where nobody counted them */
  readonly answers?: number;
  /** Whether there is an answer to the call of this key. */
  has(key: string): boolean;
  /** requests that name no model and were answered by another one before: how many, and the first such model */
  readonly ofOthers?: { count: number; model: string };
}

/** What the first request of an item begins with. */
export interface Begins {
  /** the model that it asks for, as the pool's endpoints serve it */
  model: string;
  /** what the pool knows its calls by: the row that it shares with others, or its id */
  name: string;
  /** There is an answer on record: nothing is asked. */
  isKnown?: boolean;
  /** What it says, in the order in which a server reads it: made when it is asked for. */
  texts(): readonly string[];
}

/** Where items are to be asked that begin alike, for who hands them on in an order that servers like. Endpoints by their numbers. */
export interface Placing {
  /** how many endpoints serve a model */
  servedBy(model: string): number;
  serves(endpoint: number, model: string): boolean;
  isUp(endpoint: number): boolean;
  /** calls that run there, or wait for it */
  inHand(endpoint: number): number;
  /** The endpoint that has the least to do for its places, of those that `may` have more; null where none is up. */
  hungriest(may: (endpoint: number) => boolean): number | null;
  /** The calls that are known by this name (their row, else their item) are at home at the endpoint. */
  settle(name: string, endpoint: number): void;
}

export interface Pool {
  /** the model name that requests carry where an agent names none; known once the endpoints have been probed */
  readonly model: string;
  /** The name that requests carry for the model that an agent names; absent: the same. */
  servedAs?(name: string): string;
  readonly placing?: Placing;
  /** items that an asking stage keeps in flight now, unless told otherwise: twice the sum of the endpoints' limits */
  readonly itemsInFlight: number;
  /** `listener` is told whenever that has grown. */
  onRoom(listener: () => void): void;
  call(call: Call): Promise<Answer>;
  /** absent without a ledger */
  readonly onRecord?: OnRecord | undefined;
  /**
   * The answers on record that a run accepted which judged by older rules than `asksWith.rules`. They are read when
   * they are asked for. None without a ledger, or where the last run of this stage judged by the same rules.
   */
  acceptedBefore?(asksWith: AsksWith): Iterable<RecordedAnswer>;
  /** For the record: what was made of the answer to the call of this key, and how long that took, in ms. */
  judge(key: string, rung: Rung, code: Code | undefined, mending: number): void;
  close(how?: End): Promise<void>;
}

/** How a run ended: with all of its input; by a signal; or by something that made it impossible to continue. */
export type End = 'ended' | 'stopped' | 'broken off';
