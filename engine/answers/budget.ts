/**
 * What judging one value may cost. References that branch (`anyOf` of two references, twenty levels deep) double with
 * every level, and each branch leaves an error object: a schema of 1 KB can take minutes and gigabytes. So steps and
 * errors are counted. The counts depend on the schema and the value alone, never on time: a replay judges alike.
 */
import type { Ajv } from 'ajv';
import { PatternError } from './pattern-tree.ts';

/** What any value may cost, what each node of it adds, and where that ends. */
interface Allowance {
  base: number;
  node: number;
  most: number;
  what: string;
}
/** References followed that lead to further references. */
const STEPS: Allowance = { base: 10_000, node: 100, most: 1_000_000, what: 'references' };
/** Error objects made, some 200 bytes each. A union makes one for each form that a value does not have. */
const ERRORS: Allowance = { base: 20_000, node: 64, most: 1_000_000, what: 'errors' };

export interface Budget {
  /** Begins a new value. */
  start(value: unknown): void;
  /** error objects made for this value */
  readonly errors: number;
  /** Makes `ajv` count; before it compiles. Throws PatternError from within a check once the budget is spent. */
  watch(ajv: Ajv): void;
}

/** For `code.process` of ajv, with `code.lines`: a line of its own is no part of a literal, whatever the schema says. */
export function countErrors(code: string): string {
  return code.replace(/^errors\+\+;$/gm, 'errors++;self.fwBudget.error();');
}

export function createBudget(): Budget {
  let judged: unknown;
  let nodes = -1; // not counted yet: most values spend less than the base
  let steps = 0;
  let errors = 0;
  const sizes = new WeakMap<object, number>();

  function sizeOf(data: unknown): number {
    if (typeof data !== 'object' || data === null) return 0;
    if (Array.isArray(data)) return data.length;
    let size = sizes.get(data);
    if (size === undefined) {
      size = Object.keys(data).length;
      sizes.set(data, size);
    }
    return size;
  }

  function spend(count: number, { base, node, most, what }: Allowance): void {
    if (count <= base) return;
    if (nodes === -1) nodes = nodesOf(judged);
    // twice the nodes in any case: a long list of a union of two is judged to its end
    const allowed = Math.max(Math.min(base + node * nodes, most), 2 * nodes);
    if (count <= allowed) return;
    throw new PatternError(`a value that the schema can judge within ${allowed} ${what}`);
  }

  return {
    get errors() {
      return errors;
    },
    start(value) {
      judged = value;
      nodes = -1;
      steps = 0;
      errors = 0;
    },
    watch(ajv) {
      ajv.addKeyword({
        keyword: 'x-fw-step',
        errors: false,
        validate(cost: number, data: unknown) {
          // who looks at an object or a list again and again passes over its keys each time
          steps += cost + (sizeOf(data) >> 4);
          spend(steps, STEPS);
          return true;
        },
      });
      // ahead of every other keyword: behind a reference that fails it would not be looked at
      for (const { rules } of ajv.RULES.rules) {
        const at = rules.findIndex(({ keyword }) => keyword === 'x-fw-step');
        if (at > 0) rules.unshift(...rules.splice(at, 1));
      }
      Object.assign(ajv, { fwBudget: { error: () => spend(++errors, ERRORS) } });
    },
  };
}

/** Values of an object or array, at all levels; 1 for anything else. */
function nodesOf(value: unknown): number {
  let count = 1;
  const open = [value];
  while (open.length > 0) {
    const one = open.pop();
    if (typeof one !== 'object' || one === null) continue;
    for (const below of Object.values(one)) {
      count++;
      if (typeof below === 'object') open.push(below);
    }
  }
  return count;
}
