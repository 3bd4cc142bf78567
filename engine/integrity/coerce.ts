/**
 * Values that say what the schema wants in another form. Each rule maps a value only where the schema leaves one
 * reading; whatever would need a guess stays as it is, and fails. Never the nearest value.
 */
import type { JsonObject, Repair } from '../flow/item.ts';
import type { Check } from './check.ts';
import type { Finding } from './findings.ts';
import { isKept } from './lossless.ts';
import { getAt, isObject, join, parsePointer, setAt } from './pointer.ts';
import { type SumRule, scaled } from './sum.ts';

/** Changes to values, each by its rule; a step that needed one is `coerced`. */
export const COERCIONS = {
  'number-in-text': 'A number in quotes becomes that number: "8.5" is 8.5.',
  percent: 'A percentage becomes its number: "8.5%" is 8.5, or 0.085 where the schema allows at most 1.',
  fraction: 'A share of the largest value allowed becomes a number: "85/100" is 85, or 0.85 where at most 1.',
  money: 'Currency signs and thousands separators are left out: "$1,200" is 1200.',
  'enum-form':
    'Another case, spacing or inflection of exactly one allowed value becomes it: "Approved" is approve.',
  'flat-to-nested': 'Keys that belong into a missing required object are moved there.',
  'weights-to-sum': 'Numbers that must sum to a total (x-fw-sum) are scaled in proportion.',
} as const;
export type CoercionRule = keyof typeof COERCIONS;

interface Change {
  rule: CoercionRule;
  at: string;
  from?: unknown;
  to?: unknown;
}

/** Nesting, then texts, then sums: each may uncover the next. */
const ROUNDS = 4;
const LONGEST_TEXT = 100;

/**
 * As far as the rules among `fixes` lead: the new value (the same one where nothing applied), what was changed in
 * order, and what is still wrong. An entry without `from` made a key, one without `to` took it away.
 */
export function coerce(
  value: unknown,
  check: Check,
  fixes: ReadonlySet<string>,
): { value: unknown; repairs: Repair[]; findings: readonly Finding[] } {
  const repairs: Repair[] = [];
  let current = value;
  let findings = check.findings(current);
  for (let round = 0; round < ROUNDS && findings.length > 0; round++) {
    const changes = changesFor(findings, check.schema).filter(({ rule }) => fixes.has(rule));
    if (changes.length === 0) break;
    for (const change of changes) {
      current = setAt(current, parsePointer(change.at), change.to);
      repairs.push(change);
    }
    findings = check.findings(current, true);
  }
  return { value: current, repairs, findings };
}

function changesFor(findings: readonly Finding[], root: JsonObject | boolean): Change[] {
  // Inside anyOf and its like a value may fail a branch that was not meant.
  const branches = findings.filter(({ keyword }) => ['anyOf', 'oneOf', 'not', 'contains'].includes(keyword));
  const definite = findings.filter(
    ({ instance }) => !branches.some(branch => `${instance}/`.startsWith(`${branch.instance}/`)),
  );
  const touched = new Set<string>();
  return definite.flatMap(finding => {
    const changes = changeFor(finding, definite, root);
    if (changes.some(({ at }) => touched.has(at))) return [];
    for (const { at } of changes) touched.add(at);
    return changes;
  });
}

function changeFor(finding: Finding, all: readonly Finding[], root: JsonObject | boolean): Change[] {
  const { keyword, data, parent, instance } = finding;
  if (keyword === 'required') return nest(finding, all, root);
  if (keyword === 'x-fw-sum') return toSum(finding);
  if (typeof data !== 'string' || data.length > LONGEST_TEXT) return [];
  let read: { rule: CoercionRule; to: unknown } | undefined;
  if (keyword === 'enum' || keyword === 'const') {
    read = enumForm(data, keyword === 'enum' ? (parent.enum as unknown[]) : [parent.const]);
  } else if (
    keyword === 'type' &&
    [parent.type].flat().some(type => type === 'number' || type === 'integer')
  ) {
    read = numberIn(data, typeof parent.maximum === 'number' ? parent.maximum : undefined);
  }
  return read ? [{ rule: read.rule, at: instance, from: data, to: read.to }] : [];
}

const PLAIN = '\\d+(?:\\.\\d+)?';
const GROUPED = '\\d{1,3}(?:,\\d{3})+(?:\\.\\d+)?';
const AMOUNT = new RegExp(`^(-?)([$€£¥]?)\\s*(${GROUPED}|${PLAIN})$`);
const PERCENT = new RegExp(`^(-?${PLAIN})\\s*(?:%|percent)$`, 'i');
const SHARE = new RegExp(`^(${PLAIN})\\s*(?:/|out of)\\s*(${PLAIN})$`, 'i');

/** A number that a text spells, given the largest value that the schema allows. Texts are short: see LONGEST_TEXT. */
export function numberIn(text: string, maximum?: number): { rule: CoercionRule; to: number } | undefined {
  const said = text.trim();
  const read = (rule: CoercionRule, token: string): { rule: CoercionRule; to: number } | undefined => {
    const to = Number(token);
    return isKept(token) && Number.isFinite(to) ? { rule, to } : undefined;
  };
  const asShare = maximum !== undefined && maximum <= 1;

  const amount = AMOUNT.exec(said);
  if (amount) {
    const [, sign, currency, digits] = amount as unknown as string[];
    const plain = currency === '' && !digits!.includes(',');
    return read(plain ? 'number-in-text' : 'money', sign + trimZeros(digits!.replaceAll(',', '')));
  }
  const percent = PERCENT.exec(said)?.[1];
  if (percent !== undefined)
    return read('percent', asShare ? `${trimZeros(percent)}e-2` : trimZeros(percent));
  const share = SHARE.exec(said);
  if (share) {
    const [, part, whole] = share as unknown as string[];
    // 8/10 on a scale to 100 may be 8 or 80: only a share of the scale itself has one reading.
    if (asShare && maximum === 1) {
      const ratio = Number(part) / Number(whole);
      return Number.isFinite(ratio) ? { rule: 'fraction', to: Number(ratio.toPrecision(12)) } : undefined;
    }
    if (Number(whole) === (maximum ?? 100)) return read('fraction', trimZeros(part!));
  }
  return undefined;
}

/** `007` is 7; JSON and `isKept` know no leading zeros. */
function trimZeros(digits: string): string {
  return digits.replace(/^(-?)0+(?=\d)/, '$1');
}

/** The one allowed value that the text is a form of. */
export function enumForm(
  text: string,
  allowed: readonly unknown[],
): { rule: CoercionRule; to: string } | undefined {
  const said = normal(text);
  const words = allowed.filter((value): value is string => typeof value === 'string');
  const same = words.filter(word => normal(word) === said);
  const found = same.length > 0 ? same : words.filter(word => isInflection(said, normal(word)));
  return found.length === 1 ? { rule: 'enum-form', to: found[0]! } : undefined;
}

function normal(text: string): string {
  return text
    .trim()
    .replace(/[.!]$/, '')
    .toLowerCase()
    .replace(/[\s_-]+/g, '_');
}

/** Regular English: approve, approves, approved, approving, approval; deny, denies, denied, denying, denial. */
function isInflection(a: string, b: string): boolean {
  return formsOf(a).includes(b) || formsOf(b).includes(a);
}

function formsOf(word: string): string[] {
  if (!/^[a-z]{3,}$/.test(word)) return [];
  const stem = word.slice(0, -1);
  if (word.endsWith('e')) return [`${word}s`, `${word}d`, `${stem}ing`, `${stem}al`];
  if (word.endsWith('y')) return [`${stem}ies`, `${stem}ied`, `${word}ing`, `${stem}ial`];
  return [`${word}s`, `${word}ed`, `${word}ing`, `${word}al`];
}

/** Moves the keys of a missing object that stand beside it, where no other missing object could claim them. */
function nest(finding: Finding, all: readonly Finding[], root: JsonObject | boolean): Change[] {
  const { data, instance, parent } = finding;
  if (!isObject(data)) return [];
  const keysOf = ({ parent, params }: Finding): string[] => {
    const properties = isObject(parent.properties) ? parent.properties : {};
    const missing = resolve(getAt(properties, [String(params.missingProperty)]), root);
    if (!isObject(missing) || missing.type !== 'object' || !isObject(missing.properties)) return [];
    return Object.keys(missing.properties).filter(
      key => Object.hasOwn(data, key) && !Object.hasOwn(properties, key),
    );
  };
  const others = all.filter(
    other => other !== finding && other.keyword === 'required' && other.instance === instance,
  );
  const claimed = new Set(others.filter(other => other.at !== finding.at).flatMap(keysOf));
  const keys = keysOf(finding).filter(key => !claimed.has(key));
  if (keys.length === 0 || !isObject(parent.properties)) return [];
  const moved = keys.map(
    (key): Change => ({ rule: 'flat-to-nested', at: join(instance, key), from: data[key] }),
  );
  const to = Object.fromEntries(keys.map(key => [key, data[key]]));
  return [...moved, { rule: 'flat-to-nested', at: finding.at, to }];
}

/** A reference inside the schema itself, one step. */
function resolve(schema: unknown, root: JsonObject | boolean): unknown {
  if (!isObject(schema) || typeof schema.$ref !== 'string' || !schema.$ref.startsWith('#/')) return schema;
  return getAt(root, parsePointer(schema.$ref.slice(1)));
}

function toSum({ data, parent, instance }: Finding): Change[] {
  const numbers = scaled(parent['x-fw-sum'] as SumRule, data as JsonObject);
  return [...(numbers ?? [])]
    .map(
      ([key, to]): Change => ({
        rule: 'weights-to-sum',
        at: join(instance, key),
        from: (data as JsonObject)[key],
        to,
      }),
    )
    .filter(({ from, to }) => from !== to);
}
