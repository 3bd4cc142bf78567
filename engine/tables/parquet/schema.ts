/** The columns of a Parquet file as a tree, with the levels that say what is null, absent or comes again. */
import type { Element } from './footer.ts';
import type { Leaf } from './leaf.ts';
import type { Levels } from './pages.ts';

export interface Node {
  element: Element;
  children: readonly Node[];
  /** the definition level of what is there, and the repetition level of what comes again in it */
  levels: Levels;
  /** the leaves below, as a group of rows counts them */
  leaves: readonly number[];
  path: readonly string[];
}

const DEEPEST = 64;
const MOST_COLUMNS = 10_000;
/** Of decimals; those of 256 bits have 76 digits. */
const MOST_SCALE = 1_000;
/** and what parts a text from the next */
const QUOTES = 3;
/** The keys of these objects would not be theirs. */
const NO_NAME = '__proto__';

/** The columns, and the leaves of all of them in their order. Throws an Error where they are none. */
export function treeOf(schema: readonly Element[]): { columns: readonly Node[]; leaves: readonly Node[] } {
  let next = 0;
  const leaves: Node[] = [];
  const nodeAt = (depth: number, above: Levels, path: readonly string[]): Node => {
    const element = schema[next++];
    if (element === undefined || depth > DEEPEST) throw new Error('a schema that has no end');
    const { name, repetition, children: count } = element;
    if (depth > 0 && name === NO_NAME) throw new Error(`a column with the name ${NO_NAME}`);
    if (count > schema.length) throw new Error('a schema that has no end');
    const isRoot = depth === 0;
    const levels = {
      most: above.most + (isRoot || repetition === 'REQUIRED' ? 0 : 1),
      deepest: above.deepest + (isRoot || repetition !== 'REPEATED' ? 0 : 1),
    };
    const own = isRoot ? path : [...path, name];
    const first = leaves.length;
    const children: Node[] = [];
    const node: Node = { element, children, levels, leaves: [], path: own };
    if (count > 0) for (let at = 0; at < count; at++) children.push(nodeAt(depth + 1, levels, own));
    else if (!isRoot) {
      if (element.kind === undefined) throw new Error(`the column '${name.slice(0, 60)}' without a type`);
      const scale = element.meaning?.scale ?? 0;
      if (!(Math.abs(scale) <= MOST_SCALE))
        throw new Error(
          `the column '${name.slice(0, 60)}' of decimals with ${scale} digits behind the point`,
        );
      leaves.push(node);
    }
    const below = Array.from({ length: leaves.length - first }, (_none, at) => first + at);
    const twice = isRoot ? undefined : repeatedOf(children);
    if (twice !== undefined)
      throw new Error(`the field '${twice.slice(0, 60)}' twice in the column '${own[0]}'`);
    return Object.assign(node, { leaves: below });
  };
  const { children: columns } = nodeAt(0, { most: 0, deepest: 0 }, []);
  if (leaves.length > MOST_COLUMNS)
    throw new Error(`${leaves.length} columns, which is more than ${MOST_COLUMNS}`);
  const twice = repeatedOf(columns);
  if (twice !== undefined) throw new Error(`the column '${twice.slice(0, 60)}' twice; give one another name`);
  return { columns, leaves };
}

function repeatedOf(nodes: readonly Node[]): string | undefined {
  const names = new Set<string>();
  for (const { element } of nodes) {
    if (names.has(element.name)) return element.name;
    names.add(element.name);
  }
  return undefined;
}

/** What makes the value of a row, and goes on to the entries of the next; null for nothing. */
export type Assemble = () => unknown;

/** `of` gives the leaves of a group of rows. Entries that do not belong together are an Error. */
export function assembling(node: Node, of: readonly Leaf[]): Assemble {
  const { element } = node;
  const below = node.leaves.map(at => of[at]!);
  const inner = contentOf(node, of);
  if (element.repetition === 'REPEATED') return repeated(node, below, inner);
  if (element.repetition === 'REQUIRED') return inner;
  const [first] = below as [Leaf];
  const { most } = node.levels;
  return () => (first.definition < most ? nothing(below, null) : inner());
}

function contentOf({ element, children, leaves }: Node, of: readonly Leaf[]): Assemble {
  const [child] = children;
  if (child === undefined) {
    const leaf = of[leaves[0]!]!;
    const { entries } = leaf;
    return () => {
      const value = entries.isOver ? null : leaf.value();
      entries.weigh(typeof value === 'string' ? value.length + QUOTES : 1);
      if (leaf.deepest > 0) leaf.step();
      return value;
    };
  }
  const kind = element.meaning?.name;
  const isOne = children.length === 1 && child.element.repetition === 'REPEATED';
  const below = child.leaves.map(at => of[at]!);
  if (kind === 'LIST' && isOne) {
    const inner = isElement(child, element.name) ? contentOf(child, of) : assembling(child.children[0]!, of);
    return repeated(child, below, inner);
  }
  if (kind === 'MAP' && isOne && child.children.length === 2) return mapOf(child, below, of);
  return structOf(children, of);
}

/** Whether what comes again is itself what the list has, as older writers have it. */
function isElement({ element, children }: Node, list: string): boolean {
  return (
    children.length !== 1 ||
    children[0]!.element.repetition === 'REPEATED' ||
    element.name === 'array' ||
    element.name === `${list}_tuple`
  );
}

function structOf(children: readonly Node[], of: readonly Leaf[]): Assemble {
  const parts = children.map(child => [child.element.name, assembling(child, of)] as const);
  const names = parts.reduce((sum, [name]) => sum + name.length + QUOTES, 0);
  const { entries } = of[children[0]!.leaves[0]!]!;
  return () => {
    entries.weigh(names);
    const made: { [name: string]: unknown } = {};
    for (const [name, part] of parts) made[name] = part();
    return made;
  };
}

/** An object where each key is a text, and comes once; else pairs, in their order. */
function mapOf(pair: Node, below: readonly Leaf[], of: readonly Leaf[]): Assemble {
  const [key, value] = pair.children.map(child => assembling(child, of)) as [Assemble, Assemble];
  const pairs = repeated(pair, below, () => [key(), value()]) as () => [unknown, unknown][];
  return () => {
    const found = pairs();
    const keys = new Set(found.map(([name]) => name));
    const isObject = keys.size === found.length && found.every(([name]) => typeof name === 'string');
    return isObject ? Object.fromEntries(found) : found;
  };
}

function repeated({ levels }: Node, below: readonly Leaf[], inner: Assemble): Assemble {
  const [first] = below as [Leaf];
  const { most, deepest } = levels;
  return () => {
    if (first.definition < most) return nothing(below, []);
    const made: unknown[] = [];
    do {
      const one = inner();
      if (!first.entries.isOver) made.push(one);
      for (const leaf of below) if (leaf.repetition !== first.repetition) throw apart();
    } while (first.repetition === deepest);
    return made;
  };
}

/** Each leaf below says the same of what is not there, and goes on. */
function nothing<T>(below: readonly Leaf[], made: T): T {
  const { definition } = below[0]!;
  for (const leaf of below) {
    if (leaf.definition !== definition) throw apart();
    if (leaf.deepest > 0) leaf.step();
  }
  return made;
}

const apart = (): Error => new Error('parts that do not belong together');
