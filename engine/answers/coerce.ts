/**
 * Values that say what the schema wants in another form. Each rule maps a value only where the schema leaves one
 * reading; whatever would need a guess stays as it is, and fails. Never the nearest value.
 */
import type { Repair } from '../core/item/item.ts';
import { getAt, isObject, type JsonObject, join, parsePointer, setAt } from '../core/json/pointer.ts';
import type { Check, SchemaFinding } from './schema-check.ts';
import { type SumRule, scaled } from './sum.ts';
import { booleanIn, type CoercionRule, enumForm, numberIn } from './written-forms.ts';

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
): { value: unknown; repairs: Repair[]; findings: readonly SchemaFinding[] } {
  const repairs: Repair[] = [];
  let current = value;
  let findings = check.findings(current);
  for (let round = 0; round < ROUNDS && findings.length > 0; round++) {
    const changes = changesFor(findings, current, check).filter(({ rule }) => fixes.has(rule));
    if (changes.length === 0) break;
    for (const change of changes) {
      current = setAt(current, parsePointer(change.at), change.to);
      repairs.push(change);
    }
    findings = check.findings(current, true);
  }
  return { value: current, repairs, findings };
}

function changesFor(findings: readonly SchemaFinding[], value: unknown, check: Check): Change[] {
  // Inside anyOf and its like a value may fail a branch that was not meant.
  const branches = findings.filter(({ keyword }) => ['anyOf', 'oneOf', 'not', 'contains'].includes(keyword));
  const definite = findings.filter(
    ({ instance }) => !branches.some(branch => `${instance}/`.startsWith(`${branch.instance}/`)),
  );
  const claims = claimsIn(definite, check.schema);
  const touched = new Set<string>();
  return definite.flatMap(finding => {
    const fits = (reading: number): boolean =>
      !check
        .findings(setAt(value, parsePointer(finding.instance), reading), true)
        .some(({ instance }) => instance === finding.instance);
    const changes = changeFor(finding, { claims, root: check.schema, fits });
    if (changes.some(({ at }) => touched.has(at))) return [];
    for (const { at } of changes) touched.add(at);
    return changes;
  });
}

interface Around {
  claims: Claims;
  root: JsonObject | boolean;
  /** whether a number fits in the place of what was found wrong */
  fits(reading: number): boolean;
}

function changeFor(finding: SchemaFinding, around: Around): Change[] {
  const { fits } = around;
  const { keyword, data, parent, instance } = finding;
  if (keyword === 'required') return nest(finding, around);
  if (keyword === 'x-fw-sum') return toSum(finding);
  if (typeof data !== 'string' || data.length > LONGEST_TEXT) return [];
  let read: { rule: CoercionRule; to: unknown } | undefined;
  if (keyword === 'enum' || keyword === 'const') {
    read = enumForm(data, keyword === 'enum' ? (parent.enum as unknown[]) : [parent.const]);
  } else if (keyword === 'type') {
    const types = [parent.type].flat();
    if (types.includes('boolean')) read = booleanIn(data);
    if (types.includes('number') || types.includes('integer')) read ??= numberIn(data, fits);
  }
  return read ? [{ rule: read.rule, at: instance, from: data, to: read.to }] : [];
}

/** Moves the keys of a missing object that are beside it, where no other missing object could claim them. */
function nest(finding: SchemaFinding, { claims, root }: Around): Change[] {
  const { data, instance, parent } = finding;
  if (!isObject(data) || !isObject(parent.properties)) return [];
  const claimed = claims(instance);
  const keys = claimedBy(finding, root).filter(key => claimed.get(key) === finding.at);
  if (keys.length === 0) return [];
  const moved = keys.map(
    (key): Change => ({ rule: 'flat-to-nested', at: join(instance, key), from: data[key] }),
  );
  const to = Object.fromEntries(keys.map(key => [key, data[key]]));
  return [...moved, { rule: 'flat-to-nested', at: finding.at, to }];
}

/** The keys of a value that would fit into the object that `finding` misses. */
function claimedBy({ data, parent, params }: SchemaFinding, root: JsonObject | boolean): string[] {
  if (!isObject(data)) return [];
  const properties = isObject(parent.properties) ? parent.properties : {};
  const missing = resolve(getAt(properties, [String(params.missingProperty)]), root);
  if (!isObject(missing) || missing.type !== 'object' || !isObject(missing.properties)) return [];
  return Object.keys(missing.properties).filter(
    key => Object.hasOwn(data, key) && !Object.hasOwn(properties, key),
  );
}

/** Of the keys of the value at a place, which missing object claims each: its pointer, null where several do. */
type Claims = (instance: string) => ReadonlyMap<string, string | null>;

/** All claims are found at once: a schema may ask for thousands of objects, and each would look at all others. */
function claimsIn(findings: readonly SchemaFinding[], root: JsonObject | boolean): Claims {
  let all: Map<string, Map<string, string | null>> | undefined;
  const find = (): Map<string, Map<string, string | null>> => {
    const found = new Map<string, Map<string, string | null>>();
    for (const finding of findings) {
      if (finding.keyword !== 'required') continue;
      const there = found.get(finding.instance) ?? new Map<string, string | null>();
      found.set(finding.instance, there);
      for (const key of claimedBy(finding, root))
        there.set(key, there.has(key) && there.get(key) !== finding.at ? null : finding.at);
    }
    return found;
  };
  return instance => {
    all ??= find();
    return all.get(instance) ?? new Map();
  };
}

/** A reference inside the schema itself, one step. */
function resolve(schema: unknown, root: JsonObject | boolean): unknown {
  if (!isObject(schema) || typeof schema.$ref !== 'string' || !schema.$ref.startsWith('#/')) return schema;
  return getAt(root, parsePointer(schema.$ref.slice(1)));
}

function toSum({ data, parent, instance }: SchemaFinding): Change[] {
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
