/**
 * A prompt written from the columns of a row, as a Liquid template. Strict: a variable or a filter that is not known is
 * an error that names it. Templates include no other files and are bounded in time and memory.
 *
 *   {% row_as_json %}                          {"name": "Priya Nair", "age": "24", "income": "38000"}
 *   {% row_as_json numbers: age, income %}     {"name": "Priya Nair", "age": 24, "income": 38000}
 */
import { resolve } from 'node:path';
import { readSmallFile } from '../core/config/yaml.ts';
import { dataError, ItemFailure, usageError } from '../core/item/failure.ts';

export interface Template {
  /** as it was given, for messages */
  path: string;
  /** what the template takes from outside; no names that it gives itself */
  variables: readonly string[];
  /** `beside`: what it may name that is no column, which goes before it. Throws ItemFailure `template-failed`. */
  render(values: { [column: string]: string }, beside?: { [name: string]: unknown }): string;
}

/** What says where the prompts of a table come from. */
export interface PromptOptions {
  prompt?: string | undefined;
  template?: string | undefined;
  'or-template'?: string | undefined;
  messages?: string | undefined;
  'messages-template'?: string | undefined;
}

/** Where the prompts of a table come from, or its messages: a column, or what writes them. */
export interface PromptSource {
  prompt: string | Template;
  otherwise?: Template;
  /** what is there is a JSON list of chat messages */
  isMessages?: true;
}

const SOURCES = ['prompt', 'template', 'messages', 'messages-template'] as const;

/** The one that is named, else the column `prompt`. Exit 64 for two of them, 65 as readTemplate. */
export async function promptsFrom(options: PromptOptions, base: string): Promise<PromptSource> {
  const { prompt, template, 'or-template': orTemplate, messages } = options;
  const said = SOURCES.filter(option => options[option] !== undefined);
  if (said.length > 1)
    throw usageError(
      `expected only one of --prompt, --template, --messages and --messages-template, found --${said.join(' and --')}; --or-template is for tables without that column`,
    );
  const path = options['messages-template'];
  if (messages !== undefined || path !== undefined) {
    if (orTemplate !== undefined) throw usageError('--or-template: expected a prompt, found messages');
    const from = messages ?? (await readTemplate(path as string, base));
    return { prompt: from, isMessages: true };
  }
  if (template !== undefined) return { prompt: await readTemplate(template, base) };
  const column = prompt ?? 'prompt';
  return orTemplate === undefined
    ? { prompt: column }
    : { prompt: column, otherwise: await readTemplate(orTemplate, base) };
}

const RENDER_MS = 5_000;
const MEMORY = 64 * 1024 * 1024;
const READS_FILES = ['include', 'render', 'layout', 'block'];

/** Reads the template at `path`, found from `base`. Exit 65 with line and column where it is none. */
async function readTemplate(path: string, base: string): Promise<Template> {
  return readLiquid(readSmallFile(resolve(base, path), 'a template'), path);
}

/** The template that a text is; messages name it by `path`. */
export async function readLiquid(text: string, path: string): Promise<Template> {
  const { Liquid, Tag } = await import('liquidjs');
  const liquid = new Liquid({
    strictVariables: true,
    strictFilters: true,
    ownPropertyOnly: true,
    lenientIf: true, // {% if x %} and `| default` ask whether there is an x
    jsTruthy: true, // an empty column is empty text, which plain Liquid takes for true
    renderLimit: RENDER_MS,
    memoryLimit: MEMORY,
  });
  for (const tag of READS_FILES) delete liquid.tags[tag];
  let row: { [column: string]: string } = {};
  // a tag, since a variable for the whole row could be the name of a column
  class RowAsJson extends Tag {
    private readonly numbers: ReadonlySet<string>;
    constructor(...parsed: ConstructorParameters<typeof Tag>) {
      super(...parsed);
      this.numbers = namesIn(parsed[0].args);
    }
    render(): string {
      return rowAsJson(row, this.numbers);
    }
  }
  liquid.registerTag('row_as_json', RowAsJson);
  try {
    const template = liquid.parse(text);
    return {
      path,
      variables: liquid.globalVariablesSync(template),
      render(values, beside) {
        row = values;
        try {
          return liquid.renderSync(template, { ...beside, ...values }); // {% increment %} writes into what it is given
        } catch (error) {
          const { message } = error as Error;
          const name = /^undefined variable: ([^,\n]{1,100})/.exec(message)?.[1];
          const hint =
            name === undefined
              ? ''
              : `; this row has no value there (a null of JSON or Parquet is none): {{ ${name} | default: "" }} takes an empty text`;
          throw new ItemFailure('template-failed', `${path}: ${message}${hint}`);
        }
      },
    };
  } catch (error) {
    throw dataError(`${path}: expected a Liquid template, found: ${(error as Error).message}`);
  }
}

/** Of `numbers: age, income` the columns. */
function namesIn(args: string): ReadonlySet<string> {
  const [, names] = /^\s*(?:numbers:(.+))?$/s.exec(args) ?? [];
  if (names === undefined && args.trim() !== '')
    throw new Error(`row_as_json: expected nothing, or numbers: and names of columns, found ${args.trim()}`);
  return new Set((names ?? '').split(',').map(name => name.trim()));
}

/** What is the same number in JSON and in the table, to the letter; a longer one a reader may round. */
const NUMBER = /^-?(?:0|[1-9]\d{0,14})(?:\.\d{1,15})?$/;

/**
 * The columns as one JSON object, spaced as Python's json.dumps does it. Of the columns in `numbers` a field that is a JSON
 * number is written as that number, digit for digit; any other, an empty one too, stays the text that it is.
 */
function rowAsJson(row: { [column: string]: string }, numbers: ReadonlySet<string>): string {
  const fields = Object.entries(row).map(([column, text]) => {
    const isNumber = numbers.has(column) && NUMBER.test(text);
    return `${JSON.stringify(column)}: ${isNumber ? text : JSON.stringify(text)}`;
  });
  return `{${fields.join(', ')}}`;
}
