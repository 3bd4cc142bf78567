/**
 * Answers put together from parts that the test knows: drafts, reasoning, fences, prose and one last object with a
 * fault. What the last object is, and what must become of it, follows from the parts: nothing here asks the reader.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { compileSchema } from '../../engine/answers/schema.ts';
import type { Check } from '../../engine/answers/schema-check.ts';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import { pick, type Random } from '../../products/simulator/random.ts';
import { ROOT } from '../fw.ts';
import { loanSchema } from './faults.ts';
import { madeBy } from './made.ts';

export interface Judge {
  name: string;
  check: Check;
  /** a value that fits, made by the schema */
  made(random: Random): JsonObject;
}

/**
 * An item's schema names others by file and cannot stand alone; a schedule is a list, and an answer is an object; a file of
 * fw bench has a hundred keys that must be there; what fits all options of all stages is hardly met by chance.
 */
const NO_ANSWERS = new Set([
  'item.schema.json',
  'schedule.schema.json',
  'pipeline-options.schema.json',
  'bench.schema.json',
]);

/** Every schema of the repository that a value can be made for, and those of the tests. */
export function judges(): Judge[] {
  const folders = ['schemas', 'fixtures', 'fixtures/validate/formats'];
  const files = folders.flatMap(folder =>
    readdirSync(`${ROOT}${folder}`)
      .filter(name => name.endsWith('.schema.json') && !NO_ANSWERS.has(name))
      .map(name => `${folder}/${name}`),
  );
  const judge = (name: string, schema: object): Judge => {
    const check = compileSchema(schema, name);
    const made = (random: Random): JsonObject => {
      for (let left = 100; left > 0; left--) {
        const value = madeBy(schema, random);
        if (check(value).length === 0) return value as JsonObject;
      }
      throw new Error(`expected a value that fits ${name} in a hundred tries, found none`);
    };
    return { name, check, made };
  };
  return [
    ...files.map(name => judge(name, JSON.parse(readFileSync(`${ROOT}${name}`, 'utf8')))),
    judge('loan', loanSchema),
    judge('any object', { type: 'object' }),
    // nothing is required, so that a part of an answer would fit
    judge('nothing required', { type: 'object', properties: { decision: { enum: ['approve', 'deny'] } } }),
  ];
}

/** What must become of the last object: its value, whatever fits of it and is said in it, or a code. */
export type Fate = 'value' | 'at most what it says' | 'failed';
export interface Last {
  text: string;
  fate: Fate;
}

const scalars = (value: unknown, found: { holder: JsonObject; key: string }[] = []) => {
  if (typeof value !== 'object' || value === null) return found;
  for (const [key, below] of Object.entries(value)) {
    if (typeof below === 'object' && below !== null) scalars(below, found);
    else found.push({ holder: value as JsonObject, key });
  }
  return found;
};

/** The value with one scalar of it, drawn among those of a type, written otherwise. */
function rewritten(
  value: JsonObject,
  random: Random,
  type: string | null,
  to: (from: never) => unknown,
): string {
  const copy = structuredClone(value);
  const places = scalars(copy).filter(({ holder, key }) => type === null || typeof holder[key] === type);
  if (places.length > 0) {
    const { holder, key } = pick(random, places);
    holder[key] = to(holder[key] as never);
  }
  return JSON.stringify(copy);
}

const said =
  (type: string | null, ...forms: ((from: never) => unknown)[]) =>
  (value: JsonObject, random: Random): Last => ({
    text: rewritten(value, random, type, pick(random, forms)),
    fate: 'at most what it says',
  });

/** The tokens of a JSON text, spaces left out. */
const tokensOf = (value: unknown): string[] => {
  if (Array.isArray(value))
    return ['[', ...value.flatMap((one, at) => [...(at ? [','] : []), ...tokensOf(one)]), ']'];
  if (typeof value !== 'object' || value === null) return [JSON.stringify(value)];
  const members = Object.entries(value).flatMap(([key, below], at) => [
    ...(at ? [','] : []),
    JSON.stringify(key),
    ':',
    ...tokensOf(below),
  ]);
  return ['{', ...members, '}'];
};
const spelled =
  (spell: (token: string, next: string | undefined, random: Random) => string) =>
  (value: JsonObject, random: Random): Last => {
    const tokens = tokensOf(value);
    return { text: tokens.map((token, at) => spell(token, tokens[at + 1], random)).join(''), fate: 'value' };
  };
const isNumber = (token: string): boolean => /^[-\d]/.test(token);
const isClosing = (token: string | undefined): boolean => token === '}' || token === ']';

export const FAULTS: { [name: string]: (value: JsonObject, random: Random) => Last } = {
  compact: spelled(token => token),
  indented: value => ({ text: JSON.stringify(value, null, 2), fate: 'value' }),
  'spaces of any kind': spelled(
    (token, _, random) => token + pick(random, ['', ' ', '\n', '\t', '\u00a0', '\u2003', '\u202f']),
  ),
  'single quotes': spelled(token =>
    token.startsWith('"')
      ? `'${(JSON.parse(token) as string).replace(/["'\\]|\p{C}/gu, one => JSON.stringify(one).slice(1, -1).replace("'", "\\'"))}'`
      : token,
  ),
  'bare keys': spelled((token, next) =>
    next === ':' && /^"[A-Za-z_]\w*"$/.test(token) ? token.slice(1, -1) : token,
  ),
  'python literals': spelled(token => ({ true: 'True', false: 'False', null: 'None' })[token] ?? token),
  'trailing commas': spelled((token, next) =>
    isClosing(next) && !'{['.includes(token) ? `${token},` : token,
  ),
  comments: spelled((token, _, random) =>
    token === ',' ? `,${pick(random, ['/* no */', ' // {"a":1}\n', ' # no\n'])}` : token,
  ),
  'numbers in other forms': spelled(token =>
    isNumber(token) && !/[eE]/.test(token)
      ? token
          .replace(/^(-?)0\./, '$1.')
          .replace(/^(?=[.\d])/, '+')
          .replace(/^([+-]?\d+)$/, '$1.')
      : token,
  ),
  'illegal escapes': spelled(token => (token.startsWith('"') ? token.replace(/'/g, "\\'") : token)),
  'brackets left out': value => ({
    text: JSON.stringify(value).replace(/[}\]]+$/, ''),
    fate: 'at most what it says',
  }),
  'a number in text': said('number', (from: number) => String(from)),
  'a percentage': said(
    'number',
    (from: number) => `${from}%`,
    (from: number) => `${from * 100} percent`,
  ),
  'a share': said(
    'number',
    (from: number) => `${from}/100`,
    (from: number) => `${from} out of 10`,
    () => '7/30',
  ),
  'an amount': said(
    'number',
    (from: number) => `$${from}`,
    () => '€1.200',
    () => '12,345',
    () => '$1,200',
  ),
  'a boolean in text': said(
    'boolean',
    (from: boolean) => String(from),
    () => 'yes',
    () => 1,
  ),
  'another case': said(
    'string',
    (from: string) => from.toUpperCase(),
    (from: string) => `${from}.`,
    (from: string) => ` ${from} `,
  ),
  'a null': said(null, () => null),
  'another type': said(
    null,
    () => [],
    () => ({ verdict: 'deny' }),
    () => 'maybe',
    () => -1e9,
  ),
  'an inner quote': value => {
    const text = JSON.stringify({ ...value, said: 'he said ~no~ to it' });
    return { text: text.replaceAll('~', '"'), fate: 'failed' };
  },
  'a string put together': value => {
    const text = JSON.stringify({ ...value, said: 'low ~~ income' });
    return { text: text.replace('"low ~~ income"', "'low ' + 'income'"), fate: 'failed' };
  },
  'cut off': (value, random) => {
    const text = JSON.stringify(value);
    return {
      text: text.slice(0, 1 + Math.floor(random() * (text.length - 1))),
      fate: 'at most what it says',
    };
  },
  'an early brace': value => ({
    text: JSON.stringify({ ...value, one: 1 }).replace(/,?"one":1\}$/, '},"one":1}'),
    fate: 'failed',
  }),
  'an early brace, and no comma': value => ({ text: `${JSON.stringify(value)}\n"one": 1}`, fate: 'failed' }),
  'no first brace': value => ({ text: JSON.stringify({ zero: 0, ...value }).slice(1), fate: 'failed' }),
  'no object': () => ({ text: '{...}', fate: 'failed' }),
  'a set': () => ({ text: '{deny}', fate: 'failed' }),
};

/** Harmony is the last: behind its tag for the end the answer begins. */
const REASONING: [open: string, close: string][] = [
  ['<think>', '</think>'],
  ['<THINK>\n', '\n</Think>'],
  ['<thinking>', '</thinking>'],
  ['<reasoning>', '</reasoning>'],
  ['<Thought>', '</thought>'],
  ['<seed:think>', '</seed:think>'],
  ['[THINK]', '[/THINK]'],
  ['[Reasoning]', '[/Reasoning]'],
  ['◁think▷', '◁/think▷'],
  ['<|START_THINKING|>', '<|END_THINKING|>'],
  ['<|begin_of_thought|>', '<|end_of_thought|>'],
  ['<|channel|>analysis<|message|>', '<|end|><|start|>assistant<|channel|>final<|message|>'],
];
const PROSE = [
  'I am not sure. ',
  "It's hard to say:\n\n",
  'Income / debt < 0.4 [see 2]. ',
  '**Note** "maybe" - ',
  'Answer = ',
];
const FINALLY = ['Final answer: ', '\n**Final:**\n', 'Corrected:\n\n', 'So my final decision is '];
const AFTER = ['', '\n', ' I hope that this helps!', '\n\nIt isn\'t "final" [1].', '<|end|>', '</s>'];

export interface Said extends Last {
  /** all that the model said */
  whole: string;
  /** two that differ stand side by side at the end */
  isSeveral: boolean;
}

/** A whole answer around the last object; `draft` gives other objects. */
export function saidWith(last: Last, draft: () => string, random: Random): Said {
  const fenced = (text: string): string => `\`\`\`json\n${text}\n\`\`\`\n`;
  const reasoning = (families = REASONING): string => {
    const [open, close] = pick(random, families);
    // a tag in reasoning opens it once more, even in a string of a draft: nobody can know where it ends
    const thought = draft().replaceAll('<think>', '<');
    return open + pick(random, PROSE) + thought + pick(random, PROSE) + close;
  };
  const parts: (() => string)[] = [
    () => pick(random, PROSE),
    () => draft() + pick(random, PROSE),
    () => `Draft: ${fenced(draft())}${pick(random, PROSE)}`,
    () => `The format is {"a": "x" | "y", "b": {...}}. `,
    () => 'For {names}: ',
    () => reasoning(),
  ];
  const before = Array.from({ length: Math.floor(random() * 4) }, () => pick(random, parts)()).join('');
  // whatever stood before it, the last of what stands before must be no object, and says that what follows is final
  const lead = before === '' ? '' : `${before}${pick(random, PROSE)}${pick(random, FINALLY)}`;
  const stripped = random() < 0.1 ? `${draft()} so ${draft()}\n</think>\n` : '';
  const isFenced = random() < 0.3;
  // behind a token that ends the turn nothing may stand
  const after = (random() < 0.1 ? reasoning(REASONING.slice(0, -1)) : '') + pick(random, AFTER);
  const isTwice = random() < 0.1 && last.fate === 'value';
  const other = random() < 0.5 ? last.text : draft();
  const own = isFenced ? fenced(last.text) : last.text;
  const both = isTwice
    ? pick(random, [`${other}\n${own}`, `[${other}, ${own}]`, `${fenced(other)}\n${own}`])
    : own;
  return { ...last, whole: lead + stripped + both + after, isSeveral: isTwice && other !== last.text };
}

/** An answer in which every object stands in reasoning that never ends, or that ends and is followed by prose. */
export function onlyThought(draft: () => string, random: Random): string {
  // a heading in brackets is one where nothing closes it
  const [open, close] = pick(
    random,
    REASONING.filter(([tag]) => tag !== '[Reasoning]'),
  );
  const thought = `${pick(random, PROSE)}${draft()} ${pick(random, PROSE)}`;
  return pick(random, [
    `${open}${thought}`,
    `${open}${thought}${draft()}`,
    `${open}${thought}${close}I cannot say.`,
    `${thought}</think> I cannot say.`,
    `analysisThe ${thought}`,
  ]);
}
