/** ledger check: whether a ledger is whole, by its structure, or by everything in it. */

import { isUtf8 } from 'node:buffer';
import { compileSchema } from '../../engine/answers/schema.ts';
import type { Check } from '../../engine/answers/schema-check.ts';
import { type Identity, keyOf } from '../../engine/asking/agents/request-body.ts';
import { createKeys, type Keys, nameIn, nameOfVerdict } from '../../engine/asking/ledger/key-index.ts';
import { idOfText, isAnswer, type Kind, kindIn, textIdIn } from '../../engine/asking/ledger/ledger-format.ts';
import { callIn, type Line, linesOf, parsed, type Tell } from '../../engine/asking/ledger/read-ledger.ts';
import { hasBody, type Texts, textIdsIn, textsOf } from '../../engine/asking/ledger/request-texts.ts';
import { packagedSchema } from '../../engine/core/config/package.ts';
import { writePage } from '../../engine/core/files/ndjson-out.ts';
import { number } from '../../engine/core/item/wording.ts';
import { summarise } from '../../engine/core/json/show.ts';
import { command } from '../../engine/flow/command.ts';
import { LEDGER, openReading } from './reading-options.ts';

export default command({
  name: 'ledger check',
  summary: 'Check that a ledger is intact; exit 65 if it is not.',
  examples: ['fw ledger check', 'fw ledger check --read-data --ledger out/ledger'],
  options: {
    ...LEDGER,
    'read-data': {
      type: 'boolean',
      description: 'Also check every line against its schema, and every key against its request.',
    },
  },

  async run({ ledger, 'read-data': readData }) {
    const lines: string[] = [];
    const reading = openReading(ledger, line => void lines.push(line), { torn: true });
    const checked = checkLedger(reading.paths, readData ? keyOf : null, reading.tell);
    const exit = reading.end();
    lines.push(...countsOf(checked, readData === true));
    if (exit !== 0) lines.push('damaged: fw ledger repair --out NEW copies the whole lines');
    await writePage(`${lines.join('\n')}\n`);
    return exit;
  },
});

function countsOf(checked: Checked, readData: boolean): string[] {
  const { files, lines, tries, answers, again, verdicts, stray, lost, keys, redacted } = checked;
  const counts = [
    `files ${number(files)} · lines ${number(lines)} · tries ${number(tries)} · calls answered ${number(answers)} · verdicts ${number(verdicts)}`,
  ];
  if (readData)
    counts.push(
      `keys that fit their requests ${number(keys)} · that cannot be checked, since texts were redacted ${number(redacted)}`,
    );
  if (again > 0) counts.push(`second answers to a call (the first is replayed) ${number(again)}`);
  if (stray > 0) counts.push(`verdicts on answers that are not here ${number(stray)}`);
  if (lost > 0) counts.push(`tries whose request lacks a text, which a repair did not find ${number(lost)}`);
  return counts;
}

// Whether a ledger is whole. By structure: headers, checksums, texts that calls name, keys that have two answers. With
// the data read too: each line against schemas/ledger.schema.json, each key made again from its request.

/** The key of a call, from its request as it was sent: engine/asking/agents knows how it is made. */
export type KeyOf = (body: string, call: Identity) => string;

export interface Checked {
  files: number;
  lines: number;
  tries: number;
  /** keys that have an answer, and further answers to them: those are never replayed */
  answers: number;
  again: number;
  verdicts: number;
  /** verdicts on answers that are not there */
  stray: number;
  /** tries whose request cannot be put together: a repair did not find a text of it */
  lost: number;
  /** keys that were made again from their requests */
  keys: number;
  /** tries whose key cannot be made again, since texts were left out of their requests */
  redacted: number;
}

interface Checking {
  checked: Checked;
  answers: Keys;
  /** null where the data is not read */
  data: { schemas: Record<Kind, Check>; keyOf: KeyOf } | null;
  /** of what is wrong with a line */
  say: (line: Line, message: string) => void;
  texts: Texts;
}

/** `tell` hears of all that is wrong, torn tails too. With `keyOf` the data is read. */
export function checkLedger(paths: readonly string[], keyOf: KeyOf | null, tell: Tell): Checked {
  const checked: Checked = {
    files: 0,
    lines: 0,
    tries: 0,
    answers: 0,
    again: 0,
    verdicts: 0,
    stray: 0,
    lost: 0,
    keys: 0,
    redacted: 0,
  };
  const answers = createKeys();
  const data = keyOf && { schemas: schemasOf(), keyOf };
  for (const path of paths) {
    checked.files += 1;
    const texts = textsOf(path);
    const say = ({ at, bytes }: Line, message: string): void =>
      tell({ path, kind: 'damage', at, length: bytes.length, message: `${message}, at byte ${at}` });
    try {
      for (const line of linesOf(path, tell)) checkLine(line, { checked, answers, data, say, texts });
    } finally {
      texts.close();
    }
  }
  checked.answers = answers.size;
  return checked;
}

function checkLine(line: Line, checking: Checking): void {
  const { checked, answers, data, say, texts } = checking;
  const { bytes } = line;
  checked.lines += 1;
  texts.note(line);
  const kind = kindIn(bytes);
  if (kind === null) return say(line, 'expected a kind of line that this version of fw knows, found another');
  if (kind === 'call') {
    checked.tries += 1;
    if (isAnswer(bytes) && !answers.add(nameIn(bytes, line.header), { file: 0, offset: line.at, length: 1 }))
      checked.again += 1;
    checkTexts(line, checking);
  } else if (kind === 'verdict') {
    checked.verdicts += 1;
    const verdict = parsed(bytes.toString()) ?? {};
    const { key } = verdict;
    const names = typeof key === 'string' ? [key, nameOfVerdict(verdict, line.header)] : [];
    if (names.every(name => answers.placeOf(name) === null)) checked.stray += 1;
  }
  if (data) checkData(line, kind, { ...checking, data });
}

function checkTexts(line: Line, { checked, say, texts }: Checking): void {
  if (hasBody(line.bytes)) return;
  const ids = textIdsIn(line.bytes);
  if (ids === null) return say(line, 'expected a call that names its texts, found none');
  const missing = ids.find(id => !texts.has(id));
  if (missing !== undefined)
    return say(line, `expected the text ${missing} before the call that names it, found none`);
  if (ids.some(id => texts.contentOf(id) === null)) checked.lost += 1;
}

function checkData(
  line: Line,
  kind: Kind,
  { checked, data, say, texts }: Checking & { data: NonNullable<Checking['data']> },
): void {
  const { bytes } = line;
  if (!isUtf8(bytes)) return say(line, 'expected UTF-8, found other bytes');
  const value = parsed(bytes.toString());
  if (value === null) return say(line, 'expected JSON, found none');
  const problems = data.schemas[kind](value);
  if (problems.length > 0) return say(line, summarise(problems));
  if (kind === 'text') {
    const { content } = value;
    if (typeof content === 'string' && idOfText(content) !== textIdIn(bytes))
      say(line, `expected the text ${textIdIn(bytes)}, found one with the id ${idOfText(content)}`);
  }
  if (kind !== 'call') return;
  const call = callIn(bytes);
  const body = texts.bodyOf(line);
  if (call === null || body === null) return;
  const { key, item, agent, round, attempt, redacted } = call;
  if (redacted) checked.redacted += 1;
  else if (data.keyOf(body, { id: item, agent, round, attempt }) === key) checked.keys += 1;
  else say(line, `expected a request that has the key ${key}, found another`);
}

function schemasOf(): Record<Kind, Check> {
  const { $schema, $defs } = packagedSchema('ledger');
  const of = (kind: Kind): Check =>
    compileSchema({ $schema, $ref: `#/$defs/${kind}`, $defs }, 'schemas/ledger.schema.json');
  return {
    header: of('header'),
    stage: of('stage'),
    text: of('text'),
    call: of('call'),
    verdict: of('verdict'),
    end: of('end'),
  };
}
