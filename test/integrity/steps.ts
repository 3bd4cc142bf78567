/**
 * How much of a text a function looks at: characters that the string methods and regular expressions which it calls pass
 * over. The same text gives the same count on any machine, so a bound on it says that time is linear without a clock.
 */
interface Method {
  owner: Record<string, unknown>;
  name: string;
  /** what a call costs that was made on `text` with `args` and gave `result` */
  cost(text: string, args: unknown[], result: unknown): number;
}

const found = (text: string, from: unknown, at: unknown): number => {
  const begin = Math.min(Math.max(Number(from) || 0, 0), text.length);
  return typeof at === 'number' && at >= 0 ? at - begin : text.length - begin;
};
const length = (value: unknown): number => (typeof value === 'string' ? value.length : 0);
const strings = String.prototype as unknown as Record<string, unknown>;
const expressions = RegExp.prototype as unknown as Record<string, unknown>;

const METHODS: Method[] = [
  ...['charCodeAt', 'codePointAt', 'charAt', 'at'].map(name => ({ owner: strings, name, cost: () => 1 })),
  ...['slice', 'substring', 'trim', 'trimStart', 'trimEnd', 'toLowerCase', 'replaceAll', 'replace'].map(
    name => ({
      owner: strings,
      name,
      cost: (_text: string, _args: unknown[], result: unknown) => length(result),
    }),
  ),
  ...['startsWith', 'endsWith'].map(name => ({
    owner: strings,
    name,
    cost: (_text: string, [what]: unknown[]) => length(what),
  })),
  { owner: strings, name: 'indexOf', cost: (text, [, from], at) => found(text, from, at) },
  { owner: strings, name: 'includes', cost: (text, [what, from]) => found(text, from, -1) + length(what) },
  {
    owner: strings,
    name: 'lastIndexOf',
    cost: (text, [, from = text.length], at) => Math.max(0, Number(from) - Math.max(0, Number(at))),
  },
  { owner: strings, name: 'split', cost: text => text.length },
];

/** Characters that `work` looks at, each call counting one more. */
export function stepsOf(work: () => void): number {
  let steps = 0;
  const before = METHODS.map(({ owner, name }) => owner[name]);
  const execBefore = expressions.exec as (text: string) => RegExpExecArray | null;
  for (const [nth, { owner, name, cost }] of METHODS.entries()) {
    const own = before[nth] as (...args: unknown[]) => unknown;
    owner[name] = function counted(this: unknown, ...args: unknown[]): unknown {
      const result = own.apply(this, args);
      steps += 1 + cost(String(this), args, result);
      return result;
    };
  }
  // test, match and the rest call exec where it is not the built-in one
  expressions.exec = function counted(this: RegExp, text: string): RegExpExecArray | null {
    const from = this.global || this.sticky ? this.lastIndex : 0;
    const got = execBefore.call(this, text);
    const end = got === null ? text.length : got.index + got[0].length;
    steps += 1 + (got === null && this.sticky ? 0 : Math.max(0, end - from));
    return got;
  };
  try {
    work();
  } finally {
    for (const [nth, { owner, name }] of METHODS.entries()) owner[name] = before[nth];
    expressions.exec = execBefore;
  }
  return steps;
}
