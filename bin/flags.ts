/** From option schemas to flags, which the schemas' own rules check, and to help, which yargs lays out. */
import { type Fatal, usageError } from '../engine/core/item/failure.ts';
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
  const { help, given, positionals } = readWords(argv, options, name);
  if (help) return { values: {}, positionals: [], help: await helpOf(spoken) };
  const values = resolveOptions(options, given, (flag, message) => {
    throw usageError(`--${flag}: ${message}; fw ${name} --help lists the options`);
  });
  return { values, positionals, help: null };
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

/** Usage, summary and examples are left out of what yargs wraps: an example is one line, to be copied. */
async function helpOf({ name, summary, positional, options, examples }: Spoken): Promise<string> {
  const { default: yargs } = await import('yargs');
  const page = yargs([]).scriptName('fw').help(false).version(false).exitProcess(false).wrap(110);
  for (const [group, heading] of Object.entries(HEADINGS)) {
    for (const [flag, schema] of Object.entries(options)) {
      if ((schema.group ?? 'Options') !== group) continue;
      page.option(flag, {
        group: heading,
        type: schema.type === 'integer' ? 'number' : schema.type,
        ...('enum' in schema && schema.enum ? { choices: schema.enum } : {}),
        ...(schema.short === undefined ? {} : { alias: schema.short }),
        description: schema.description,
        ...(schema.default === undefined ? {} : { defaultDescription: String(schema.default) }),
      });
    }
  }
  page.option('help', { ...HELP, alias: HELP.short, group: HEADINGS.Common });
  const usage = `fw ${name} [options] ${positional}`.trimEnd();
  const parts = [usage, summary, await page.getHelp()];
  if (examples.length > 0) parts.push(['Examples:', ...examples.map(line => `  ${line}`)].join('\n'));
  return parts.join('\n\n');
}

const HELP = { type: 'boolean', short: 'h', description: 'Show this page.' } as const;

interface Words {
  help: boolean;
  given: Values;
  positionals: string[];
}

/** What the words say. An option is `--id VALUE` or `--id=VALUE`; what follows `--` is arguments, as it stands. */
function readWords(argv: readonly string[], options: OptionSchemas, verb: string): Words {
  const schemas: OptionSchemas = { ...options, help: HELP };
  const given: Values = {};
  const positionals: string[] = [];
  for (let at = 0; at < argv.length; at++) {
    const word = named(argv[at] as string, schemas);
    if (word === '--') {
      positionals.push(...argv.slice(at + 1));
      break;
    }
    if (/^-[A-Za-z]{2}/.test(word)) {
      throw usageError(
        `expected options with two dashes, found '${word}': did you mean -${word}? Put a file or an id that begins with a dash after --`,
      );
    }
    if (!/^-./.test(word) || /^-[\d.]+$/.test(word)) {
      positionals.push(word);
      continue;
    }
    const [, flag = '', text] = /^--?([^=]*)(?:=(.*))?$/s.exec(word) ?? [];
    const schema = Object.hasOwn(schemas, flag) ? schemas[flag] : undefined;
    const next = argv[at + 1];
    if (schema === undefined) {
      const denied = text === undefined && flag.startsWith('no-') ? flag.slice(3) : '';
      if (!Object.hasOwn(options, denied) || options[denied]?.type !== 'boolean')
        throw unknownOption(word.split('=', 1)[0] as string, options, verb);
      given[denied] = false;
    } else if (schema.type === 'boolean' && text === undefined) {
      const isNext = next === 'true' || next === 'false';
      given[flag] = !isNext || next === 'true';
      if (isNext) at += 1;
    } else {
      if (text === undefined) {
        if (next === undefined) throw usageError(`--${flag}: expected a value, found none`);
        if (next.startsWith('--'))
          throw usageError(
            `--${flag}: expected a value, found '${next}'; if that is the value: --${flag}=${next}`,
          );
        at += 1;
      }
      const value = text ?? (next as string);
      if (value === '' && schema.type === 'array')
        throw usageError(`--${flag}: expected a value, found an empty one`);
      given[flag] = together(given[flag], value, schema);
    }
  }
  const { help = false, ...rest } = given;
  return { help: help === true || help === 'true', given: rest, positionals };
}

/** What an option has been given so far: of a list all, of a switch the last; two of another are refused by what it is. */
function together(before: unknown, value: string, { type }: OptionSchemas[string]): unknown {
  if (type === 'array') return [...((before as string[] | undefined) ?? []), value];
  return before === undefined || type === 'boolean' ? value : [before, value].flat();
}

/** `-i` by its name. */
function named(word: string, options: OptionSchemas): string {
  const [, letter, value = ''] = /^-([A-Za-z])(=.*)?$/s.exec(word) ?? [];
  const [name] =
    Object.entries(options).find(([, { short }]) => short !== undefined && short === letter) ?? [];
  return name === undefined ? word : `--${name}${value}`;
}

/** An option that the verb does not have, with the one that may be meant; `--no-x` is a boolean's. */
function unknownOption(word: string, options: OptionSchemas, verb: string): Fatal {
  const flag = word.replace(/^--?/, '');
  const booleans = Object.keys(options).filter(name => options[name]?.type === 'boolean');
  const names = [...Object.keys(options), 'help', ...booleans.map(name => `no-${name}`)];
  const meant = habit(flag, options) ?? didYouMean(flag, names, '--');
  return usageError(
    `expected an option of fw ${verb}, found '${word}'${meant}; fw ${verb} --help lists the options`,
  );
}
