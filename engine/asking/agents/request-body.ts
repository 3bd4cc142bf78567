/**
 * Request bodies as bytes: a constant prefix per agent (model, system message), the growing context of the item, a
 * short end. The context is kept JSON-escaped and grows by what each answer adds, so nothing is escaped twice. The bytes
 * are put together once, behind those that a call's key is made of too, and are hashed and sent from there.
 */
import { hash } from 'node:crypto';
import { stripAnnotations } from '../../answers/schema-words.ts';
import type { JsonObject } from '../../core/json/pointer.ts';
import type { Agent } from './agent-file.ts';

/** Part of every call key: bodies or keys that are built differently must not meet old answers. */
const FORMAT = 'fw1';

/** Hex characters of SHA-256 that are kept: 128 bits. */
const KEY_LENGTH = 32;

/** What makes one call to an agent differ from the next. */
export interface Particulars {
  /** the user message, escaped (see `escaped`); with `opening` the text between that and its end */
  context: string;
  /** the messages of an item that has its own, or that come before its prompt */
  opening?: Opening | undefined;
  /** the answer that was rejected last, and what to say about it */
  rejected?: { raw: string; complaint: string };
  temperature: number;
  seed: number;
}

/** What stands before and behind the context among the messages, as JSON. */
export interface Opening {
  before: string;
  after: string;
}

/** How a server is told to decode: by the fields of today, by those of vLLM up to 0.11, or not at all. */
export type Guided = 'on' | 'older' | 'off';

const USER: Opening = { before: '{"role":"user","content":"', after: '"}' };

/** A system message, then the user's. */
export function openingWith(persona: string): Opening {
  return { ...USER, before: `${JSON.stringify({ role: 'system', content: persona })},${USER.before}` };
}

/** The bodies of one agent's calls: each begins with `head` and ends with `tail`. */
export interface Bodies {
  head: string;
  tail: string;
  /** The body of a call, and its key. */
  bodyOf(particulars: Particulars, identity: Identity): { body: Buffer; key: string };
}

/** Text as it stands between the quotes of a JSON string. */
export function escaped(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

/** The bodies for one agent on one model. A persona that is a template is part of each item's opening. */
export function bodies(agent: Agent, model: string, guided: Guided): Bodies {
  const { persona, template, extra, sampling: all } = agent;
  const { max_tokens, temperature: _temperature, ...sampling } = all;
  const system =
    persona === undefined || template ? '' : `${JSON.stringify({ role: 'system', content: persona })},`;
  const head = `{"model":${JSON.stringify(model)},"messages":[${system}`;
  const more: JsonObject = { max_tokens, ...sampling, ...decodingOf(agent, guided), ...extra };
  const tail = `,${JSON.stringify(more).slice(1)}`;
  const headBytes = Buffer.from(head);
  const usualBytes = Buffer.from(head + USER.before);
  const tailBytes = Buffer.from(tail);
  const bodyOf: Bodies['bodyOf'] = ({ context, opening, rejected, temperature, seed }, identity) => {
    const prefixBytes = opening === undefined ? usualBytes : headBytes;
    const own = opening === undefined ? context : opening.before + context;
    let rest = (opening ?? USER).after;
    if (rejected !== undefined) {
      // chat templates refuse an empty turn, and some two turns of one role in a row: then the complaint stands alone
      const answer = rejected.raw.trim() === '' ? '(an empty answer)' : rejected.raw;
      rest += `,{"role":"assistant","content":"${escaped(answer)}"}`;
      rest += `,{"role":"user","content":"${escaped(rejected.complaint)}"}`;
    }
    rest += `],"temperature":${temperature},"seed":${seed}`;
    const before = nameOf(identity);
    const texts = Buffer.byteLength(before) + Buffer.byteLength(own) + Buffer.byteLength(rest);
    const bytes = Buffer.allocUnsafe(prefixBytes.length + tailBytes.length + texts);
    const from = bytes.write(before);
    let at = from + prefixBytes.copy(bytes, from);
    at += bytes.write(own, at);
    at += bytes.write(rest, at);
    tailBytes.copy(bytes, at);
    return { body: bytes.subarray(from), key: hash('sha256', bytes, 'hex').slice(0, KEY_LENGTH) };
  };
  return { head, tail, bodyOf };
}

/** The fields that tell a server which form an answer has. */
function decodingOf({ key, schema, choice, regex }: Agent, guided: Guided): JsonObject {
  if (guided === 'off') return {};
  const json = schema && stripAnnotations(schema);
  if (guided === 'older')
    return {
      ...(json !== undefined && { guided_json: json }),
      ...(choice && { guided_choice: choice }),
      ...(regex !== undefined && { guided_regex: regex }),
    };
  if (json !== undefined)
    return {
      response_format: { type: 'json_schema', json_schema: { name: key, schema: json, strict: true } },
    };
  const structured_outputs = choice ? { choice } : { regex };
  return choice || regex !== undefined ? { structured_outputs } : {};
}

/** Who asks for what, and which time: what a seed and a key are made of besides the body. */
export interface Identity {
  id: string;
  agent: string;
  /** 0, and one more for each time that --retry-failed took the item up */
  round: number;
  /** 1-based, within the round */
  attempt: number;
}

/** The sampling seed of a call: 31 bits, as every server takes them. */
export function seedOf(runSeed: number, { id, agent, round, attempt }: Identity): number {
  const digest = hash('sha256', `${runSeed}\n${id}\n${agent}\n${round}\n${attempt}`, 'hex');
  return Number.parseInt(digest.slice(0, 8), 16) & 0x7fffffff;
}

/**
 * A fingerprint of how an agent is sampled: 16 hex characters of the SHA-256 of its sampling, of what is asked again at which
 * temperatures, of the form that the server decodes by, and of what seeds are made of. Not of the model.
 */
export function policyOf(
  agent: Agent,
  { guided, seed, twins }: { guided: Guided; seed: number; twins?: readonly string[] | undefined },
): string {
  const { sampling, extra, askAgain } = agent;
  const all = [sampling, extra ?? {}, askAgain ?? null, decodingOf(agent, guided), seed, twins ?? []];
  return hash('sha256', JSON.stringify(all), 'hex').slice(0, 16);
}

/** The key of a call: the same key is the same question. */
export function keyOf(body: string, identity: Identity): string {
  return hash('sha256', nameOf(identity) + body, 'hex').slice(0, KEY_LENGTH);
}

/** A body as bytes, and its key: both are made of the same bytes, which are put together once. */
export function keyedBody(body: string, identity: Identity): { bytes: Buffer; key: string } {
  const name = nameOf(identity);
  const all = Buffer.from(name + body);
  return {
    bytes: all.subarray(Buffer.byteLength(name)),
    key: hash('sha256', all, 'hex').slice(0, KEY_LENGTH),
  };
}

/** What a key is made of before the body. */
function nameOf({ id, agent, round, attempt }: Identity): string {
  return `${FORMAT}\n${id}\n${agent}\n${round}\n${attempt}\n`;
}
