/** From option schemas to flags and help, by yargs; numbers and choices are checked by the schemas' own rules. */
import yargs from 'yargs';
import { usageError } from '../engine/flow/failure.ts';
import { type OptionSchemas, resolveOptions, type Values } from '../engine/flow/options.ts';

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
  const { name, summary, positional, options, examples } = spoken;
  const dashed = argv.find(word => /^-[a-z]{2}/.test(word));
  if (dashed !== undefined)
    throw usageError(`expected options with two dashes, found '${dashed}': -${dashed}?`);
  const parser = yargs([...argv])
    .scriptName('fw')
    .usage(`fw ${name} [options] ${positional}\n\n${summary}`)
    .parserConfiguration({
      'parse-numbers': false,
      'parse-positional-numbers': false,
      'camel-case-expansion': false,
      'dot-notation': false,
      'greedy-arrays': false,
    })
    .help(false)
    .version(false)
    .option('help', { alias: 'h', type: 'boolean', description: 'Show this page.' })
    .strictOptions()
    .exitProcess(false)
    .wrap(110)
    .fail((message, error) => {
      throw usageError(`${error?.message ?? message}; fw ${name} --help lists the options`);
    });
  for (const [flag, schema] of Object.entries(options)) {
    parser.option(flag, {
      type: schema.type === 'boolean' ? 'boolean' : 'string',
      ...(schema.type === 'array'
        ? { array: true, nargs: 1 }
        : schema.type === 'boolean'
          ? {}
          : { requiresArg: true }),
      ...('enum' in schema && schema.enum ? { choices: schema.enum } : {}),
      description: schema.description,
      // shown in the help only: defaults are filled in below, so that a given value can be told from a default
      ...(schema.default === undefined ? {} : { defaultDescription: String(schema.default) }),
    });
  }
  if (examples.length > 0) parser.epilogue(`Examples:\n${examples.map(line => `  ${line}`).join('\n')}`);

  const parsed = await parser.parseAsync();
  if (parsed.help === true) return { values: {}, positionals: [], help: await parser.getHelp() };
  const given: Values = {};
  for (const flag of Object.keys(options)) if (parsed[flag] !== undefined) given[flag] = parsed[flag];
  const values = resolveOptions(options, given, (flag, message) => {
    throw usageError(`--${flag}: ${message}; fw ${name} --help lists the options`);
  });
  return { values, positionals: parsed._.map(String), help: null };
}
