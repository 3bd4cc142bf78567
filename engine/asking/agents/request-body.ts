/**
 * Request bodies as bytes: a constant prefix per agent (model, system message), the growing context of the item, a
 * short end. The context is kept JSON-escaped and grows by what each answer adds, so nothing is escaped twice. The bytes
 * are put together once, behind those that a call's key is made of too, and are hashed and sent from there.
 */

import { hash } from 'node:crypto';
import { readFileSync, realpathSync, statSync } from 'node:fs';
import { extname, isAbsolute, join, relative } from 'node:path';
import { stripAnnotations } from '../../answers/schema-words.ts';
import { ItemFailure } from '../../core/item/failure.ts';
import { besideOf, type Item, type Step } from '../../core/item/item.ts';
import { badMessages, chatMessages } from '../../core/item/line-shape.ts';
import { isObject, type JsonObject } from '../../core/json/pointer.ts';
import { shorten } from '../../core/json/show.ts';
import { readLiquid, type Template } from '../../tables/template.ts';
import type { Agent, Sampling } from './agent-file.ts';
import type { Agents } from './load-agents.ts';

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
  rejected?: { raw: string; complaint: string } | undefined;
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
function openingWith(persona: string): Opening {
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
  const more: JsonObject = {
    max_tokens,
    ...sampling,
    ...decodingOf(agent, guided),
    ...toolsOf(agent),
    ...extra,
  };
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

/** As the agent file has them; nothing for an agent without tools. */
function toolsOf({ tools, tool_choice }: Agent): JsonObject {
  if (tools === undefined) return {};
  return { tools, ...(tool_choice !== undefined && { tool_choice }) };
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
  const usual = [sampling, extra ?? {}, askAgain ?? null, decodingOf(agent, guided), seed, twins ?? []];
  const all = agent.tools === undefined ? usual : [...usual, toolsOf(agent)];
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

/** Bytes of a file that a message names. */
const LARGEST_FILE = 16 * 1024 * 1024;
const PARTS = ['image_url', 'video_url', 'audio_url'] as const;
const TYPES: { readonly [extension: string]: string } = {
  '.png': 'image/png',
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
  '.gif': 'image/gif',
  '.webp': 'image/webp',
  '.bmp': 'image/bmp',
  '.mp4': 'video/mp4',
  '.webm': 'video/webm',
  '.wav': 'audio/wav',
  '.mp3': 'audio/mpeg',
  '.flac': 'audio/flac',
  '.ogg': 'audio/ogg',
};

/**
 * What an agent reads before the answers of others, where that is not one persona and one prompt: a persona that is a
 * template, and the messages that an item brings along. Files that these name are read when they are asked about, so that
 * items stay small.
 */
export interface Opened {
  opening: Opening | undefined;
  /** contents of files, as they stand in the opening: a ledger does not keep them */
  files: string[];
}

/**
 * What `agent` reads first of `item`; `hasTurns`: answers of others follow, `seen` are the steps that they are of, which a
 * persona may name. Throws ItemFailure.
 */
export type Openings = (agent: Agent, item: Item, hasTurns: boolean, seen?: () => readonly Step[]) => Opened;

/** Reads the templates of the agents. `folder`: below it lie the files that messages name. Exit 65 where a template is none. */
export async function openingsOf(agents: Agents, folder: string | undefined): Promise<Openings> {
  const templates = new Map<string, Template>();
  for (const { key, persona, template } of agents.byKey.values()) {
    if (!template || persona === undefined) continue;
    templates.set(key, await readLiquid(persona, join(agents.folder, `${key}.yaml`)));
  }
  return (agent, item, hasTurns, seen) => {
    const template = templates.get(agent.key);
    const steps = template?.variables.includes('steps') ? stepsNamed(seen?.() ?? []) : undefined;
    const persona = template?.render(item.input ?? {}, steps);
    if (item.messages === undefined || item.prompt !== undefined)
      return { opening: persona === undefined ? undefined : openingWith(persona), files: [] };
    const messages = chatMessages(item.messages);
    const isSystem = ({ role }: JsonObject): boolean => role === 'system' || role === 'developer';
    if (agent.persona !== undefined && messages.some(isSystem))
      throw badMessages(
        `expected no system message beside the persona of ${agent.key}, found one; leave the persona out of the agent file`,
      );
    const files: string[] = [];
    const whole = messages.map(message => JSON.stringify(withFiles(message, folder, files)));
    const system = persona === undefined ? [] : [JSON.stringify({ role: 'system', content: persona })];
    return { opening: openingOf([...system, ...whole], messages.at(-1) as JsonObject, hasTurns), files };
  };
}

/** `steps.KEY` of a persona: what the agent KEY answered, called and thought, of those whose answers the agent is shown. */
function stepsNamed(seen: readonly Step[]): { steps: object } {
  const named = seen.map(({ agent, output, tool_calls, reasoning }) => [
    agent,
    {
      output,
      ...besideOf({ ...(tool_calls && { tool_calls }), ...(reasoning !== undefined && { reasoning }) }),
    },
  ]);
  return { steps: Object.fromEntries(named) };
}

/** Answers of others stand at the end of the last message, if that is the user's, and else in one of their own. */
function openingOf(messages: readonly string[], last: JsonObject, hasTurns: boolean): Opening {
  const all = messages.join(',');
  if (!hasTurns) return { before: all, after: '' };
  if (last.role !== 'user') return { before: `${all},{"role":"user","content":"`, after: '"}' };
  const before = messages
    .slice(0, -1)
    .map(message => `${message},`)
    .join('');
  const { content, ...rest } = last;
  const others =
    Object.keys(rest).length > 1 ? `,${JSON.stringify({ ...rest, role: undefined }).slice(1, -1)}` : '';
  if (typeof content === 'string')
    return { before: `${before}{"role":"user","content":"${escaped(content)}`, after: `"${others}}` };
  const own = JSON.parse(messages.at(-1) as string) as { content: unknown[] };
  const parts = own.content.map(part => `${JSON.stringify(part)},`).join('');
  return {
    before: `${before}{"role":"user","content":[${parts}{"type":"text","text":"`,
    after: `"}]${others}}`,
  };
}

/** The message with the files that it names in their places. */
function withFiles(message: JsonObject, folder: string | undefined, files: string[]): JsonObject {
  const { content } = message;
  if (!Array.isArray(content)) return message;
  const parts = content.map((part: JsonObject) => {
    const kind = PARTS.find(name => part.type === name);
    const link = kind === undefined ? undefined : part[kind];
    if (kind === undefined || !isObject(link) || typeof link.url !== 'string') return part;
    if (!link.url.startsWith('file:')) return part;
    return { ...part, [kind]: { ...link, url: dataOf(link.url, folder, files) } };
  });
  return { ...message, content: parts };
}

/** A `data:` URL of the file that `url` names, such as `file:photos/1.jpg`. */
function dataOf(url: string, folder: string | undefined, files: string[]): string {
  const name = url.slice('file:'.length).replace(/^\/\/(?=\/)/, '');
  const shown = JSON.stringify(shorten(name));
  if (folder === undefined)
    throw badMessages(
      `expected --files FOLDER, which files that messages name lie in, found none, and the file ${shown}`,
    );
  const type = TYPES[extname(name).toLowerCase()];
  if (type === undefined)
    throw badMessages(`expected a file that ends in ${Object.keys(TYPES).join(', ')}, found ${shown}`);
  let bytes: Buffer;
  try {
    const root = realpathSync(folder);
    const path = realpathSync(isAbsolute(name) ? name : join(root, name));
    // lines come from anywhere, and a link may lead anywhere
    const below = relative(root, path);
    if (below.startsWith('..') || isAbsolute(below))
      throw badMessages(`expected a file in the folder of --files, found ${shown}, which lies elsewhere`);
    const { size } = statSync(path);
    if (size > LARGEST_FILE)
      throw badMessages(`expected a file of at most ${LARGEST_FILE} bytes, found ${shown} of ${size}`);
    bytes = readFileSync(path);
  } catch (error) {
    if (error instanceof ItemFailure) throw error;
    const { code } = error as NodeJS.ErrnoException;
    throw badMessages(
      `expected a file to read, found ${shown}: ${code === 'ENOENT' ? 'no such file' : code}`,
    );
  }
  const text = bytes.toString('base64');
  files.push(text);
  return `data:${type};base64,${text}`;
}

/** What a person has to change where answers are cut off. */
export function limitWords(sampling: Sampling): string {
  const field = sampling.max_tokens === undefined ? 'max_completion_tokens' : 'max_tokens';
  return `its ${field} is ${mostTokens(sampling)}`;
}

/** The limit of tokens of an answer. */
export function mostTokens({ max_tokens, max_completion_tokens }: Sampling): number {
  return max_tokens ?? (max_completion_tokens as number);
}

/** What one attempt asks differently from the first. */
export type Sample = Pick<Particulars, 'temperature' | 'rejected'>;

/** As an agent is asked first. */
export function firstSample({ sampling: { temperature } }: Agent): Sample {
  return { temperature };
}
