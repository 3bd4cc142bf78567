/**
 * Our own engine for patterns, since it protects a server from its users: schemas and agents come from anybody, and a run is
 * shared. A time limit would need a thread for every test, and would judge alike no more when a run is replayed.
 *
 * A user's `pattern` must not be able to hang a run: JavaScript's own engine backtracks, and `(a+)+$` on thirty
 * characters takes minutes. Here patterns run as sets of states (Thompson, 1968): time is states x characters, always.
 *
 * What one character may be (classes, escapes, `\p{…}`) is left to the built-in engine, one character at a time. What
 * needs backtracking, lookaround and back references, is refused when the schema is read.
 */
import { PatternError, parsePattern, type Test, type Tree } from './pattern-tree.ts';

/** States of one pattern, after counted repetitions are written out. */
const MAX_STATES = 2_000;
/** States x characters of one test; about a fifth of a second. */
const MAX_WORK = 20_000_000;

type Node =
  | { kind: 'char'; test: Test; next: number }
  | { kind: 'fork'; next: number; other: number }
  | { kind: 'start' | 'end' | 'word' | 'not-word'; next: number }
  | { kind: 'match' };

/** What ajv asks of a regular expression. Throws PatternError for what it cannot run in linear time. */
export function linearPattern(source: string): { test(text: string): boolean; toString(): string } {
  const tree = parsePattern(source);
  const program = build(tree);
  if (isTame(tree)) return new RegExp(source, 'u');
  return { test: remembered(text => run(program, text)), toString: () => `linear ${source}` };
}

/**
 * Patterns on which backtracking is linear too go to the built-in engine, which is fifty times as fast: no repetition
 * of variable length, or a single one, of one character, after a `^`.
 */
function isTame(tree: Tree): boolean {
  const loose: Tree[] = [];
  const visit = (part: Tree): void => {
    if (part.kind === 'repeat') {
      if (part.min !== part.max || part.part.kind !== 'char') loose.push(part);
      visit(part.part);
    } else if (part.kind === 'all' || part.kind === 'any') part.parts.forEach(visit);
  };
  visit(tree);
  const [only] = loose;
  if (only === undefined) return true;
  const anchored = tree.kind === 'all' && tree.parts[0]?.kind === 'start';
  return loose.length === 1 && anchored && only.kind === 'repeat' && only.part.kind === 'char';
}

/** Lists of agents and dates come again with every line. */
function remembered(test: (text: string) => boolean): (text: string) => boolean {
  const known = new Map<string, boolean>();
  return text => {
    const before = known.get(text);
    if (before !== undefined) return before;
    const now = test(text);
    if (known.size >= 1_000) known.clear();
    if (text.length <= 200) known.set(text, now);
    return now;
  };
}

/** States in an array; the first is where to begin. Built from the end, so that `next` is known. */
function build(tree: Tree): { nodes: Node[]; first: number } {
  const nodes: Node[] = [{ kind: 'match' }];
  const add = (node: Node): number => {
    if (nodes.length >= MAX_STATES) {
      throw new PatternError(`expected a pattern of at most ${MAX_STATES} states, repetitions written out`);
    }
    return nodes.push(node) - 1;
  };
  const place = (part: Tree, next: number): number => {
    switch (part.kind) {
      case 'char':
        return add({ ...part, next });
      case 'all':
        return part.parts.reduceRight((then, one) => place(one, then), next);
      case 'any':
        return part.parts
          .map(one => place(one, next))
          .reduceRight((other, one) => add({ kind: 'fork', next: one, other }));
      case 'repeat':
        return repeat(part, next);
      default:
        return add({ kind: part.kind, next });
    }
  };
  const repeat = ({ part, min, max }: Tree & { kind: 'repeat' }, next: number): number => {
    // `(?:){1000000000}` adds no state a round, and would still be written out
    if (min > MAX_STATES || (max !== Infinity && max > MAX_STATES)) {
      throw new PatternError(`expected at most ${MAX_STATES} repetitions in a pattern`);
    }
    let then = next;
    if (max === Infinity) {
      const loop = add({ kind: 'fork', next: 0, other: next }) as number;
      (nodes[loop] as Node & { kind: 'fork' }).next = place(part, loop);
      then = loop;
    } else {
      for (let count = min; count < max; count++) {
        then = add({ kind: 'fork', next: place(part, then), other: next });
      }
    }
    for (let count = 0; count < min; count++) then = place(part, then);
    return then;
  };
  return { first: place(tree, 0), nodes };
}

function isWord(point: number | undefined): boolean {
  return point !== undefined && point < 128 && /\w/.test(String.fromCharCode(point));
}

function run({ nodes, first }: { nodes: Node[]; first: number }, text: string): boolean {
  if (text.length * nodes.length > MAX_WORK) {
    throw new PatternError(`expected a text of at most ${Math.floor(MAX_WORK / nodes.length)} characters`);
  }
  /** the step at which a state was last entered, so that each is entered once a character */
  const entered = new Int32Array(nodes.length).fill(-1);
  let current: number[] = [];
  let step = 0;
  let matched = false;
  const enter = (
    into: number[],
    state: number,
    before: number | undefined,
    after: number | undefined,
  ): void => {
    const open = [state];
    while (open.length > 0) {
      const at = open.pop()!;
      if (entered[at] === step) continue;
      entered[at] = step;
      const node = nodes[at]!;
      if (node.kind === 'match') matched = true;
      else if (node.kind === 'char') into.push(at);
      else if (node.kind === 'fork') open.push(node.next, node.other);
      else {
        const edge = isWord(before) !== isWord(after);
        const holds = {
          start: before === undefined,
          end: after === undefined,
          word: edge,
          'not-word': !edge,
        };
        if (holds[node.kind]) open.push(node.next);
      }
    }
  };

  let before: number | undefined;
  let at = 0;
  while (true) {
    const point = text.codePointAt(at);
    // A match may begin anywhere.
    enter(current, first, before, point);
    if (matched || point === undefined) return matched;
    step++;
    at += point > 0xffff ? 2 : 1;
    const next: number[] = [];
    const after = text.codePointAt(at);
    for (const state of current) {
      const node = nodes[state] as Node & { kind: 'char' };
      if (node.test(point)) enter(next, node.next, point, after);
    }
    if (matched) return true;
    current = next;
    before = point;
  }
}
