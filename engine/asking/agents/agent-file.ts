/** One agent file: who answers, in which form, sampled how. What it cannot mean is said with file, line and column. */

import { createHash } from 'node:crypto';
import { statSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { linearPattern } from '../../answers/linear-pattern.ts';
import { readSmallFile, type YamlFile } from '../../core/config/yaml.ts';
import { dataError } from '../../core/item/failure.ts';
import { isObject, type JsonObject, parsePointer } from '../../core/json/pointer.ts';
import { spanOf } from '../../core/json/span.ts';

/** Ask once more, at the next temperature, while the value at the pointer `at` is one of `when`. */
export interface AskAgain {
  at: string;
  when: unknown[];
  temperatures: number[];
}

export interface Agent {
  key: string;
  /** stands for the agent in ids and file names; a synthesis may have none */
  short?: string;
  /** the name under which later agents read the answer */
  display: string;
  /** what a legacy result says in `agent_name`, whatever the model wrote there; `display` where it is not said */
  agent_name?: string;
  role: 'agent' | 'synthesis';
  /** the system message; an agent without one has none */
  persona?: string;
  /** the persona is a Liquid template, whose variables are the columns of an item */
  template?: boolean;
  /** the JSON Schema of an answer, as it was written; an agent without one answers in text */
  schema?: JsonObject;
  /** the texts that an answer may be; of these and `schema` and `regex` there is one at most */
  choice?: string[];
  /** what all of an answer must match */
  regex?: string;
  /** `assessment` for a file assessment.schema.json, else the agent's key: defaults are found by it */
  schemaName: string;
  /** where the schema was written, for messages */
  schemaPath: string;
  /** whether text behind an answer is left out, which is the default, or makes it none */
  text_after?: 'accept' | 'refuse';
  sampling: Sampling;
  /** functions that the model may call, as OpenAI's API has them; nobody here runs one */
  tools?: JsonObject[];
  /** `auto`, `none`, `required`, or `{type: function, function: {name}}` */
  tool_choice?: string | JsonObject;
  /** fields of the request that are merged into it last */
  extra?: JsonObject;
  /** what the requests name instead of the model of the run: a LoRA adapter, or a model that some endpoints serve */
  model?: string;
  askAgain?: AskAgain;
  /** what changes the question changes one of them */
  hashes: { persona: string; schema: string; sampling: string };
}

type AgentYaml = Omit<Agent, 'schema' | 'schemaName' | 'schemaPath' | 'tools' | 'askAgain' | 'hashes'> & {
  schema?: string | JsonObject;
  tools?: string | JsonObject[];
  ask_again?: AskAgain;
};

const places = new WeakMap<Agent, (pointer: string) => string>();

/** `file:line:column` of a place in the schema of an agent. */
export function placeInSchema(agent: Agent, pointer: string): string {
  return places.get(agent)?.(pointer) ?? agent.schemaPath;
}

/** The agent that an agent file describes. */
export function agentOf(file: YamlFile): Agent {
  const { schema, tools: given, ask_again: askAgain, ...rest } = file.value as AgentYaml;
  const expected = basename(file.path, '.yaml');
  if (rest.key !== expected) {
    throw file.complain(['key'], `key: expected '${expected}', as the file is named, found '${rest.key}'`);
  }
  const { choice, regex, persona, template, sampling, extra } = rest;
  const found = schemaOf(file, rest.key, schema);
  const forms = (['schema', 'choice', 'regex'] as const).filter(form => file.hasKey(form));
  if (forms.length > 1)
    throw file.complain(
      [forms[1] as string],
      `expected one of schema, choice and regex, found ${forms.join(' and ')}`,
      'key',
    );
  if (askAgain && found.schema === undefined)
    throw file.complain(
      ['ask_again'],
      'ask_again: expected a schema beside it, which has that place, found none',
      'key',
    );
  if (file.hasKey('text_after') && found.schema === undefined)
    throw file.complain(
      ['text_after'],
      'text_after: expected a schema beside it, since a text has nothing behind it, found none',
      'key',
    );
  if (template && persona === undefined)
    throw file.complain(['template'], 'template: expected a persona beside it, found none', 'key');
  if (regex !== undefined) checkRegex(file, regex);
  for (const field of Object.keys(extra ?? {})) {
    const why = notForExtra(field, sampling);
    if (why !== undefined) throw file.complain(['extra', field], `extra: ${field}: ${why}`, 'key');
  }
  const { place, ...form } = found;
  const tools = given === undefined ? undefined : toolsOf(file, given, rest.tool_choice);
  if (tools === undefined && rest.tool_choice !== undefined)
    throw file.complain(['tool_choice'], 'tool_choice: expected tools beside it, found none', 'key');
  const calling = tools === undefined ? [] : [{ tools, tool_choice: rest.tool_choice ?? null }];
  const agent: Agent = {
    ...rest,
    ...(askAgain && { askAgain }),
    ...form,
    ...(tools && { tools }),
    hashes: {
      persona: hashOf(template ? [persona, 'template'] : (persona ?? null)),
      schema: hashOf(choice ?? regex ?? form.schema ?? null),
      sampling: hashOf([sampling, askAgain ?? null, ...(extra ? [extra] : []), ...calling]),
    },
  };
  places.set(agent, place);
  return agent;
}

function checkRegex(file: YamlFile, regex: string): void {
  try {
    linearPattern(`^(?:${regex})$`);
  } catch (error) {
    throw file.complain(['regex'], `regex: ${(error as Error).message}`);
  }
}

type FoundSchema = Pick<Agent, 'schema' | 'schemaName' | 'schemaPath'> & { place(pointer: string): string };

function schemaOf(file: YamlFile, key: string, schema: string | JsonObject | undefined): FoundSchema {
  if (typeof schema !== 'string') {
    const place = (pointer: string): string => file.placeOf(['schema', ...parsePointer(pointer)]);
    return { ...(schema && { schema }), schemaName: key, schemaPath: file.path, place };
  }
  const { path: schemaPath, text, parsed } = jsonBeside(file, 'schema', schema, 'a JSON Schema');
  if (!isObject(parsed))
    throw dataError(`${schemaPath}: expected a JSON Schema as an object, found another value`);
  const schemaName = basename(schemaPath).replace(/(\.schema)?\.json$/, '');
  const place = (pointer: string): string => {
    const before = text.slice(0, spanOf(text, parsePointer(pointer))?.from ?? 0).split('\n');
    return `${schemaPath}:${before.length}:${(before.at(-1) as string).length + 1}`;
  };
  return { schema: parsed, schemaName, schemaPath, place };
}

/** The JSON of a file that a key of an agent file names, from where that lies. Exit 65 where it is none. */
function jsonBeside(file: YamlFile, key: string, name: string, what: string) {
  const path = resolve(dirname(file.path), name);
  if (!statSync(path, { throwIfNoEntry: false })?.isFile())
    throw file.complain([key], `${key}: expected the path of ${what}, found no file at ${path}`);
  const text = readSmallFile(path, what);
  try {
    return { path, text, parsed: JSON.parse(text) as unknown };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw dataError(`${path}: expected ${what}, found text that is no JSON: ${error.message}`);
  }
}

/** The tools, as they are sent: only that each is one, under a name of its own, is asked of them. */
function toolsOf(
  file: YamlFile,
  given: string | JsonObject[],
  choice: string | JsonObject | undefined,
): JsonObject[] {
  const tools =
    typeof given === 'string' ? jsonBeside(file, 'tools', given, 'a list of tools').parsed : given;
  const wrong = (what: string): Error => file.complain(['tools'], `tools: ${what}`);
  if (!Array.isArray(tools) || tools.length === 0)
    throw wrong('expected a list of at least one tool, found another value');
  const names = tools.map((tool, at) => {
    const { type, function: made } = isObject(tool) ? tool : {};
    if (type === 'function' && isObject(made) && typeof made.name === 'string') return made.name;
    throw wrong(`expected {type: function, function: {name, …}} as tool ${at + 1}, found another value`);
  });
  const twice = names.find((name, at) => names.indexOf(name) < at);
  if (twice !== undefined) throw wrong(`expected names of their own, found '${twice}' twice`);
  const named = isObject(choice) && isObject(choice.function) ? choice.function.name : undefined;
  if (named !== undefined && !names.includes(named as string))
    throw file.complain(
      ['tool_choice'],
      `tool_choice: expected one of the tools (${names.join(', ')}), found '${named}'`,
    );
  return tools as JsonObject[];
}

/** The order of keys inside a schema counts: guided decoding writes the answer in that order. */
function hashOf(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 16);
}

/** Which fields of a request an agent file may set, beside those that its schema lists under `sampling`. */
export interface Sampling {
  temperature: number;
  /** one of these two is there */
  max_tokens?: number;
  max_completion_tokens?: number;
  [field: string]: unknown;
}

/** What fw makes itself, and why nobody else may. */
const OWNED: { readonly [field: string]: string } = {
  messages: 'fw makes them of the persona, the prompt and the answers of earlier agents',
  prompt: 'fw asks for chat completions; a prompt is a column or a template of fw ingest',
  model: 'the key `model` of the agent file names another model',
  stream: 'fw reads whole answers',
  stream_options: 'fw reads whole answers',
  n: 'fw reads one answer of a call; fw ingest --samples makes an item of each sample',
  seed: 'fw gives each call a seed of its own, made of --seed',
  request_id: 'each try has an id of its own',
  tools: 'the key `tools` of the agent file has them',
  tool_choice: 'the key `tool_choice` of the agent file has it',
};

const IN_SAMPLING: readonly string[] = ['temperature', 'max_tokens', 'max_completion_tokens'];

/** Why a field may not stand in `extra`; undefined where it may. */
function notForExtra(field: string, sampling: Sampling): string | undefined {
  if (Object.hasOwn(OWNED, field))
    return `expected a field that fw leaves to you, found one that it owns: ${OWNED[field]}`;
  if (IN_SAMPLING.includes(field)) return 'expected it under sampling, found it here';
  return Object.hasOwn(sampling, field) ? 'expected it once, found it under sampling too' : undefined;
}
