/** From option schemas to flags and help, by yargs; numbers and choices are checked by the schemas' own rules. */
import yargs from 'yargs';
import { usageError } from '../engine/core/item/failure.ts';
import { didYouMean } from '../engine/core/item/wording.ts';
import { type OptionSchemas, resolveOptions, type Values } from '../engine/flow/options.ts';
import { habit } from './habits.ts';

export interface Spoken {
  name: string;
  summary: string;
  positional: string;
  options: OptionSchemas;
  examples: readonly string[];
}

export interface Flags {
  values: Values;
  positionals: string[];
  /** the help page, where it was asked for */
  help: string | null;
}

/** Throws a usage error (64) that names the option, what was expected and what was found. */
export async function parseFlags(spoken: Spoken, argv: readonly string[]): Promise<Flags> {
  const { name, options } = spoken;
  const words = wordsOf(argv, options, name);
  const parsed = await parserOf(spoken, words, 'string').parseAsync();
  if (parsed.help === true) {
    return { values: {}, positionals: [], help: await helpOf(spoken) };
  }
  const given: Values = {};
  for (const flag of Object.keys(options)) if (parsed[flag] !== undefined) given[flag] = parsed[flag];
  const values = resolveOptions(options, given, (flag, message) => {
    throw usageError(`--${flag}: ${message}; fw ${name} --help lists the options`);
  });
  return { values, positionals: parsed._.map(String), help: null };
}

/** The headings of the help, in their order; an option without a group is the verb's own. */
const HEADINGS = {
  Options: 'Options:',
  Asking: 'Asking:',
  Endpoints: 'Endpoints:',
  Ledger: 'Ledger:',
  Watching: 'Watching:',
  Workers: 'Workers:',
  Common: 'Common:',
} as const;

/** `numbers`: the help calls a number that; for reading, it is text, which our own rules check. */
function parserOf(spoken: Spoken, words: string[], numbers: 'string' | 'number') {
  const { name, options } = spoken;
  const parser = yargs(words)
    .scriptName('fw')
    .parserConfiguration({
      'parse-numbers': false,
      'parse-positional-numbers': false,
      'camel-case-expansion': false,
      'dot-notation': false,
      'greedy-arrays': false,
    })
    .help(false)
    .version(false)
    .strictOptions()
    .exitProcess(false)
    .wrap(110)
    .fail((message, error) => {
      throw usageError(`${error?.message ?? message}; fw ${name} --help lists the options`);
    });
  for (const [group, heading] of Object.entries(HEADINGS)) {
    for (const [flag, schema] of Object.entries(options)) {
      if ((schema.group ?? 'Options') !== group) continue;
      const { type } = schema;
      parser.option(flag, {
        group: heading,
        type: type === 'boolean' ? 'boolean' : type === 'integer' || type === 'number' ? numbers : 'string',
        ...(type === 'array' ? { array: true, nargs: 1 } : type === 'boolean' ? {} : { requiresArg: true }),
        ...('enum' in schema && schema.enum ? { choices: schema.enum } : {}),
        ...(schema.short === undefined ? {} : { alias: schema.short }),
        description: schema.description,
        // shown in the help only: defaults are filled in later, so that a given value can be told from a default
        ...(schema.default === undefined ? {} : { defaultDescription: String(schema.default) }),
      });
    }
  }
  parser.option('help', {
    alias: 'h',
    type: 'boolean',
    description: 'Show this page.',
    group: HEADINGS.Common,
  });
  return parser;
}

/** Usage, summary and examples are left out of what yargs wraps: an example is one line, to be copied. */
async function helpOf(spoken: Spoken): Promise<string> {
  const { name, summary, positional, examples } = spoken;
  const usage = `fw ${name} [options] ${positional}`.trimEnd();
  const parts = [usage, summary, await parserOf(spoken, [], 'number').getHelp()];
  if (examples.length > 0) parts.push(['Examples:', ...examples.map(line => `  ${line}`)].join('\n'));
  return parts.join('\n\n');
}

/**
 * The words as yargs reads them without a doubt: an option and its value in one, `--id=-abc`, since yargs takes a value
 * that begins with a dash for an option. What follows `--` is left as it is.
 */
function wordsOf(argv: readonly string[], options: OptionSchemas, verb: string): string[] {
  const words: string[] = [];
  for (let at = 0; at < argv.length; at++) {
    const word = named(argv[at] as string, options);
    if (word === '--') return [...words, ...argv.slice(at)];
    if (/^-[A-Za-z]{2}/.test(word)) {
      throw usageError(
        `expected options with two dashes, found '${word}': -${word}? A file or an id that begins with a dash goes behind --`,
      );
    }
    if (!word.startsWith('--')) {
      words.push(word);
      continue;
    }
    const [flag = ''] = word.slice(2).split('=', 1);
    const schema = Object.hasOwn(options, flag) ? options[flag] : undefined;
    if (schema === undefined) {
      refuseUnknown(flag, options, verb);
      words.push(word);
      continue;
    }
    const value = argv[at + 1];
    const mark = word.indexOf('=');
    if (schema.type === 'boolean' || mark !== -1) {
      words.push(mark === -1 ? word : `--${flag}=${unstripped(word.slice(mark + 1), schema)}`);
      continue;
    }
    if (value === undefined) throw usageError(`--${flag}: expected a value, found none`);
    if (value.startsWith('--')) {
      throw usageError(`--${flag}: expected a value, found '${value}'; if it is one, --${flag}=${value}`);
    }
    words.push(`${word}=${unstripped(value, schema)}`);
    at += 1;
  }
  return words;
}

/** `-i` by its name. */
function named(word: string, options: OptionSchemas): string {
  const [, letter] = /^-([A-Za-z])$/.exec(word) ?? [];
  const [name] =
    Object.entries(options).find(([, { short }]) => short !== undefined && short === letter) ?? [];
  return name === undefined ? word : `--${name}`;
}

/** The value of a list as yargs leaves it: of quotation marks around one it takes a pair away. */
function unstripped(value: string, { type }: OptionSchemas[string]): string {
  return type === 'array' && /^(?:".*"|'.*')$/s.test(value) ? `"${value}"` : value;
}

/** Exit 64 for an option that the verb does not have, with the one that may be meant; `--no-x` is a boolean's. */
function refuseUnknown(flag: string, options: OptionSchemas, verb: string): void {
  if (flag === 'help') return;
  const positive = flag.startsWith('no-') ? flag.slice(3) : flag;
  const booleans = Object.keys(options).filter(name => options[name]?.type === 'boolean');
  if (positive !== flag && booleans.includes(positive)) return;
  const known = [...Object.keys(options), 'help', ...booleans.map(name => `no-${name}`)];
  const meant = habit(flag, options) ?? didYouMean(flag, known, '--');
  throw usageError(
    `expected an option of fw ${verb}, found '--${flag}'${meant}; fw ${verb} --help lists the options`,
  );
}
