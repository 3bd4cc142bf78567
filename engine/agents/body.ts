/**
 * Request bodies as bytes: a constant prefix per agent (model, system message), the growing context of the item, a
 * short end. The context is kept JSON-escaped and grows by what each answer adds, so nothing is escaped twice. The bytes
 * are put together once, behind those that a call's key is made of too, and are hashed and sent from there.
 */
import { hash } from 'node:crypto';
import type { JsonObject } from '../flow/item.ts';
import { stripAnnotations } from '../integrity/keywords.ts';
import type { Agent } from './load.ts';

/** Part of every call key: bodies or keys that are built differently must not meet old answers. */
const FORMAT = 'fw1';

/** Hex characters of SHA-256 that are kept: 128 bits. */
const KEY_LENGTH = 32;

/** What makes one call to an agent differ from the next. */
export interface Particulars {
  /** the user message, escaped (see `escaped`) */
  context: string;
  /** the answer that was rejected last, and what to say about it */
  rejected?: { raw: string; complaint: string };
  temperature: number;
  seed: number;
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

/** The bodies for one agent on one model; with `guided`, the server is told to obey the agent's schema. */
export function bodies(agent: Agent, model: string, guided: boolean): Bodies {
  const { max_tokens, temperature: _temperature, ...sampling } = agent.sampling;
  const system = { role: 'system', content: agent.persona };
  const head = `{"model":${JSON.stringify(model)},"messages":[${JSON.stringify(system)},`;
  const prefix = `${head}{"role":"user","content":"`;
  const more: JsonObject = { max_tokens, ...sampling };
  if (guided) {
    const schema = stripAnnotations(agent.schema);
    more.response_format = { type: 'json_schema', json_schema: { name: agent.key, schema, strict: true } };
  }
  const tail = `,${JSON.stringify(more).slice(1)}`;
  const prefixBytes = Buffer.from(prefix);
  const tailBytes = Buffer.from(tail);
  const bodyOf: Bodies['bodyOf'] = ({ context, rejected, temperature, seed }, identity) => {
    let rest = '"}';
    if (rejected !== undefined) {
      // chat templates refuse an empty turn, and some two turns of one role in a row: then the complaint stands alone
      const answer = rejected.raw.trim() === '' ? '(an empty answer)' : rejected.raw;
      rest += `,{"role":"assistant","content":"${escaped(answer)}"}`;
      rest += `,{"role":"user","content":"${escaped(rejected.complaint)}"}`;
    }
    rest += `],"temperature":${temperature},"seed":${seed}`;
    const before = nameOf(identity);
    const texts = Buffer.byteLength(before) + Buffer.byteLength(context) + Buffer.byteLength(rest);
    const bytes = Buffer.allocUnsafe(prefixBytes.length + tailBytes.length + texts);
    const from = bytes.write(before);
    let at = from + prefixBytes.copy(bytes, from);
    at += bytes.write(context, at);
    at += bytes.write(rest, at);
    tailBytes.copy(bytes, at);
    return { body: bytes.subarray(from), key: hash('sha256', bytes, 'hex').slice(0, KEY_LENGTH) };
  };
  return { head, tail, bodyOf };
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

/** The key of a call: the same key is the same question. */
export function keyOf(body: string, identity: Identity): string {
  return hash('sha256', nameOf(identity) + body, 'hex').slice(0, KEY_LENGTH);
}

/** What a key is made of before the body. */
function nameOf({ id, agent, round, attempt }: Identity): string {
  return `${FORMAT}\n${id}\n${agent}\n${round}\n${attempt}\n`;
}
