/** ledger show: every try of an item, or of one call, with what was sent and what came back. */

import { nameOfCall, type Place } from '../../engine/asking/ledger/key-index.ts';
import type { Header } from '../../engine/asking/ledger/ledger-format.ts';
import {
  type CallHead,
  callIn,
  callsOf,
  openLines,
  type Tell,
} from '../../engine/asking/ledger/read-ledger.ts';
import {
  contentText,
  type Request,
  readRequest,
  type Texts,
  textsOf,
} from '../../engine/asking/ledger/request-texts.ts';
import { writePage } from '../../engine/core/files/ndjson-out.ts';
import { EXIT, usageError } from '../../engine/core/item/failure.ts';
import { counted, cut, number } from '../../engine/core/item/wording.ts';
import { visible, visibleLines } from '../../engine/core/json/visible.ts';
import { command } from '../../engine/flow/command.ts';
import { type Answers, readAnswers } from './answer-outcomes.ts';
import { LEDGER, openReading, tokensOf, toStderr } from './reading-options.ts';

export default command({
  name: 'ledger show',
  summary: 'Show every try of an item or a call: request, answer, verdict, endpoint, tokens, time.',
  positional: 'ID',
  examples: ['fw ledger show 50acc2a3e4e6', 'fw ledger show 876c9724f18f12f4 --ledger out/ledger'],
  options: LEDGER,

  async run({ ledger }, [id, ...more]) {
    if (id === undefined || id === '' || more.length > 0)
      throw usageError('expected the id of an item or the key of a call: fw ledger show ID');
    const say = toStderr('show');
    const { paths, tell, end } = openReading(ledger, say);
    const found = findTries(paths, id, tell);
    if (found.tries.length === 0) {
      say(notFound(id, found));
      return end() || EXIT.failed;
    }
    const answers = readAnswers(paths, () => {});
    const lines = openLines(paths);
    const first = new Map<string, number>();
    for (const [index, one] of found.tries.entries()) {
      const line = { at: one.offset, bytes: lines.read(one), header: one.header };
      const call = callIn(line.bytes);
      if (call === null) continue; // it was one a moment ago
      const told = first.get(one.key);
      const request = told === undefined ? readRequest(line, one.texts) : told;
      first.set(one.key, told ?? index + 1);
      await writePage(
        `${storyOf(index + 1, one, { call, request, answers, path: paths[one.file] }).join('\n')}\n`,
      );
      one.texts.close();
    }
    lines.close();
    return end();
  },
});

interface Told {
  call: CallHead;
  /** or the number of the try that has the same one */
  request: Request | number;
  answers: Answers;
  path: string | undefined;
}

function storyOf(place: number, one: Try, { call, request, answers, path = '' }: Told): string[] {
  const { key, outcome, time, endpoint, model, item, agent, round, attempt, ms } = call;
  const { detail, finish, usage, answer, whole, redacted, caller, arm, ttft } = call;
  const facts = [agent, `attempt ${attempt}`, ...(round > 0 ? [`round ${round + 1}`] : []), outcome];
  const name = nameOfCall(call, one.header);
  const isFirst = answer !== undefined && answers.isFirst(name, one.file, one.offset);
  const verdict = isFirst ? answers.verdictOf(name) : null;
  if (verdict) facts.push(`verdict ${verdict.rung}${verdict.code === undefined ? '' : ` (${verdict.code})`}`);
  if (answer !== undefined && !isFirst)
    facts.push('the call had an answer before, which is the one replayed');
  const run = one.header ? `run ${one.header.label} of ${one.header.started}` : 'a run whose header is lost';
  const lines = [
    `${place === 1 ? `${visible(item)}\n\n` : '\n'}${place}. ${facts.map(visible).join(' · ')}`,
    `   ${[time, `${number(ms)} ms`, endpoint, model].map(visible).join(' · ')}`,
    `   call ${visible(key)} · ${visible(run)} · ${visible(path)} at byte ${one.offset}`,
  ];
  const live = [
    ...(caller === undefined ? [] : [`asked by ${caller}`]),
    ...(arm === undefined ? [] : [`arm ${arm}`]),
    ...(ttft === undefined ? [] : [`first token after ${number(ttft)} ms`]),
  ];
  if (live.length > 0) lines.push(`   ${live.map(visible).join(' · ')}`);
  if (usage)
    lines.push(
      `   tokens ${tokensOf({ in: usage.prompt, cached: usage.cached ?? 0, out: usage.completion })}`,
    );
  if (detail !== undefined) lines.push(`   ${visible(detail)}`);
  if (typeof request === 'number') lines.push(`   the request is that of ${request}.`);
  else lines.push(...asked(request, redacted === true));
  const part = whole ? `, the beginning of ${counted(whole.bytes, 'byte')}` : '';
  if (answer !== undefined)
    lines.push(`   answer, finish ${visible(finish ?? '?')}${part}`, ...block(answer));
  return lines;
}

function asked({ system, input, parameters }: Request, redacted: boolean): string[] {
  const lines = redacted ? ['   texts of the request were left out of the ledger (--redact)'] : [];
  const named = Object.entries(parameters).map(
    ([name, value]) => `${name} ${cut(JSON.stringify(value), 80)}`,
  );
  if (named.length > 0) lines.push(`   ${named.map(visible).join(' · ')}`);
  if (system === null) lines.push('   system: its text is lost');
  else if (system !== '') lines.push('   system', ...block(system));
  for (const message of input) lines.push(`   ${visible(message.role)}`, ...block(contentText(message)));
  return lines;
}

const block = (text: string): string[] => visibleLines(text).map(line => `     | ${line}`);

function notFound(id: string, { several, read }: Tries): string {
  const found =
    several.length > 0
      ? `several that begin with it: ${several.join(', ')}`
      : `none in ${counted(read, 'try', 'tries')}`;
  return visible(`expected an item with the id ${id}, or a call with that key, found ${found}`);
}

/** A key may be cut short, down to this many of its characters. */
const SHORTEST_KEY = 8;
/** Ids that a message names. */
const MAX_NAMED_IDS = 5;

export interface Try extends Place {
  time: string;
  key: string;
  /** of the run; null where it is lost */
  header: Header | null;
  /** of its file */
  texts: Texts;
}

export interface Tries {
  /** in the order in which they ended */
  tries: Try[];
  /** items and keys that begin with what was asked for, where they are several */
  several: string[];
  /** tries that were looked at */
  read: number;
}

/** Those of the item or the call that is named `id`, else of the one that begins with it. */
export function findTries(paths: readonly string[], id: string, tell: Tell): Tries {
  const exact: Try[] = [];
  let begins: Try[] = [];
  const several = new Set<string>();
  const mayBeKey = id.length >= SHORTEST_KEY;
  let read = 0;
  for (const [file, path] of paths.entries()) {
    const texts = textsOf(path);
    for (const { at, bytes, header, call } of callsOf(path, tell, texts)) {
      read += 1;
      const { key, item, time } = call;
      const one: Try = { file, offset: at, length: bytes.length, time, key, header, texts };
      if (item === id || key === id) exact.push(one);
      const name = item.startsWith(id) ? item : mayBeKey && key.startsWith(id) ? key : null;
      if (name === null || exact.length > 0) continue;
      if (several.size <= MAX_NAMED_IDS) several.add(name);
      if (several.size === 1) begins.push(one);
      else begins = [];
    }
  }
  const tries = (exact.length > 0 ? exact : begins).sort((a, b) =>
    a.time < b.time ? -1 : a.time > b.time ? 1 : 0,
  );
  return { tries, several: tries.length > 0 ? [] : [...several], read };
}
