/** A value as a tree of what is in it: each with where it came from, where that is known, as `fw explain --value` says it. */
import type { Origin } from '../../../engine/audit/value-provenance.ts';
import { counted } from '../../../engine/core/item/wording.ts';
import { isObject, join, parsePointer } from '../../../engine/core/json/pointer.ts';
import { type Html, html, NONE } from '../../kit/html.ts';
import { jsonText, LONG_TEXT, SHORT_TEXT, type Writer } from './writer.ts';

/** Levels of a tree; what is deeper is shown as JSON. */
const DEEPEST = 12;
const MOST_ENTRIES = 400;
/** Characters of texts and changes that are gone through for the origins of one answer: each value looks for its place. */
const MOST_WORK = 20_000_000;

export interface Origins {
  /** null where nobody says, or too much was asked already */
  of(at: string): Origin | null;
  /** the origins of some values were not looked for */
  readonly isTired: boolean;
}

/** `cost`: characters that each question goes through. */
export function boundOrigins(of: (tokens: readonly string[]) => Origin, cost: number): Origins {
  let work = 0;
  return {
    of(at) {
      if (work > MOST_WORK) return null;
      work += cost + 100;
      return of(parsePointer(at));
    },
    get isTired() {
      return work > MOST_WORK;
    },
  };
}

export interface TreeOptions {
  /** JSON Pointer of the value in its line */
  at: string;
  origins?: Origins | null;
  /** the beginning of the names of the columns that its values are: `out.` */
  columns?: string | undefined;
  isHidden?: boolean;
}

/** A value of any kind, a list of its entries where it has some. */
export function valueTree(value: unknown, options: TreeOptions, writer: Writer): Html {
  if (!isBranch(value)) return html`<p class="value-alone">${leaf(value, options, writer)}</p>`;
  const tree = html`<ul class="tree">${branches(value, options, writer, 1)}</ul>`;
  const tired = options.origins?.isTired
    ? html`<p class="dim">Where the other values came from was not looked for: fw explain ID --value POINTER tells it.</p>`
    : NONE;
  return html`${tree}${tired}`;
}

const isBranch = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && Object.keys(value).length > 0;

function branches(value: object, options: TreeOptions, writer: Writer, depth: number): Html[] {
  const isList = Array.isArray(value);
  return writer.list(
    Object.entries(value),
    ([key, inner]) => entry(key, inner, { options, isList, depth }, writer),
    { most: MOST_ENTRIES, what: 'value', as: 'li' },
  );
}

function entry(
  key: string,
  value: unknown,
  { options, isList, depth }: { options: TreeOptions; isList: boolean; depth: number },
  writer: Writer,
): Html {
  const at = join(options.at, key);
  const column = options.columns === undefined || isList ? undefined : options.columns + key;
  const name = html`<span class="key">${writer.text(isList ? String(Number(key) + 1) : key, 200)}</span>`;
  const place = writer.attribute('data-at', at);
  if (column !== undefined && writer.isHidden(column))
    return html`<li${place}>${name} <span class="hidden">hidden</span></li>`;
  const below = { ...options, at, columns: column === undefined ? undefined : `${column}.` };
  if (!isBranch(value))
    return html`<li${place}>${name} ${leaf(value, { ...below, columns: column }, writer)}</li>`;
  if (depth >= DEEPEST)
    return html`<li${place}>${name} <code>${writer.text(jsonText(value), SHORT_TEXT)}</code></li>`;
  const size = Object.keys(value).length;
  const words = Array.isArray(value) ? counted(size, 'item') : counted(size, 'key');
  return html`<li${place}>${name} <span class="dim">${words}</span> ${mark(options.origins?.of(at), writer, true)}<ul>${branches(value, below, writer, depth + 1)}</ul></li>`;
}

function leaf(value: unknown, { at, origins, columns: column }: TreeOptions, writer: Writer): Html {
  const kind = value === null ? 'null' : typeof value;
  const text = typeof value === 'string' ? value : jsonText(value);
  const isLong = text.length > 300 || text.includes('\n');
  const href = column === undefined || isLong || isObject(value) ? null : writer.links.filter(column, text);
  const shown =
    text === ''
      ? html`<i class="dim">empty text</i>`
      : writer.text(text, isLong ? LONG_TEXT / 4 : SHORT_TEXT);
  const linked = writer.link(href, shown);
  const inside = html`<span class="value ${kind}${isLong ? ' long' : ''}">${linked}</span>`;
  return html`${inside} ${mark(origins?.of(at), writer)}`;
}

const WORDS: { readonly [kind in Origin['kind']]: string } = {
  said: 'said',
  mended: 'mended',
  coerced: 'coerced',
  default: 'default',
  named: 'own name',
  unknown: 'unknown',
  beside: 'not by a model',
};

/** `isBranch`: what is in it has marks of its own, so that only a change of the whole is worth one. */
function mark(origin: Origin | null | undefined, writer: Writer, isBranch = false): Html {
  if (!origin || origin.kind === 'beside') return NONE;
  const { kind, words } = origin;
  if (isBranch && kind !== 'coerced' && kind !== 'default') return NONE;
  const tag = html`<span class="origin ${kind}">${WORDS[kind]}</span>`;
  if (kind === 'said') return tag;
  return html`${tag} <span class="why">${writer.text(words[0] ?? '', 500)}</span>`;
}
