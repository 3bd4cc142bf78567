/**
 * What an agent reads before the answers of others, where that is not one persona and one prompt: a persona that is a
 * template, and the messages that an item brings along. Files that these name are read when they are asked about, so that
 * items stay small.
 */
import { readFileSync, realpathSync, statSync } from 'node:fs';
import { extname, isAbsolute, join, relative } from 'node:path';
import { ItemFailure } from '../../core/item/failure.ts';
import type { Item } from '../../core/item/item.ts';
import { badMessages, chatMessages } from '../../core/item/line-shape.ts';
import { isObject, type JsonObject } from '../../core/json/pointer.ts';
import { shorten } from '../../core/json/show.ts';
import { readLiquid, type Template } from '../../tables/template.ts';
import type { Agent } from './agent-file.ts';
import type { Agents } from './load-agents.ts';
import { escaped, type Opening, openingWith } from './request-body.ts';

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

export interface Opened {
  opening: Opening | undefined;
  /** contents of files, as they stand in the opening: a ledger does not keep them */
  files: string[];
}

/** What `agent` reads first of `item`; `hasTurns`: answers of others follow. Throws ItemFailure. */
export type Openings = (agent: Agent, item: Item, hasTurns: boolean) => Opened;

/** Reads the templates of the agents. `folder`: below it lie the files that messages name. Exit 65 where a template is none. */
export async function openingsOf(agents: Agents, folder: string | undefined): Promise<Openings> {
  const templates = new Map<string, Template>();
  for (const { key, persona, template } of agents.byKey.values()) {
    if (!template || persona === undefined) continue;
    templates.set(key, await readLiquid(persona, join(agents.folder, `${key}.yaml`)));
  }
  return (agent, item, hasTurns) => {
    const persona = templates.get(agent.key)?.render(item.input ?? {});
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
