/**
 * Judging again what an item or a record already holds, without asking: what `validate`, `fix-escapes` and `null-fix`
 * share. A step is judged by its agent's schema, a legacy result by the packaged one, any other record by the schema
 * that was named, or by none.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { dataError, ItemFailure, usageError } from '../flow/failure.ts';
import {
  type Item,
  isLegacy,
  type JsonObject,
  type Mark,
  type Repair,
  type Rung,
  type Step,
  worse,
} from '../flow/item.ts';
import { packagedSchema } from '../flow/root.ts';
import { readAnswer } from '../integrity/read-answer.ts';
import { type Check, compileSchema } from '../integrity/schema.ts';
import { type Agents, folderOfAgents, loadAgents } from './load.ts';

export interface Judge {
  check: Check;
  /** the name by which defaults are found */
  name: string;
}

export interface Judges {
  /** Throws ItemFailure (unknown-agent) for an agent that the folder does not have. */
  ofStep(agent: string): Judge;
  /** null where a record only has to be a JSON object */
  ofRecord(record: JsonObject): Judge | null;
}

/** `schema` is a path, or `legacy`; `agents` a folder. Both resolve from `base`, and are read when first needed. */
export function judges(options: { schema?: string; agents?: string }, base: string): Judges {
  let agents: Agents | null = null;
  let legacy: Judge | null = null;
  const named =
    options.schema === undefined || options.schema === 'legacy' ? null : schemaAt(options.schema, base);
  const legacyJudge = (): Judge => {
    legacy ??= {
      check: compileSchema(packagedSchema('legacy'), 'legacy.schema.json', { isOurs: true }),
      name: 'legacy',
    };
    return legacy;
  };
  return {
    ofStep(key) {
      agents ??= loadAgents(folderOfAgents(options.agents, base));
      const agent = agents.byKey.get(key);
      if (agent === undefined) {
        throw new ItemFailure('unknown-agent', `expected an agent of the agents folder, found '${key}'`, {
          agent: key,
        });
      }
      return { check: compileSchema(agent.schema, agent.schemaPath), name: agent.schemaName };
    },
    ofRecord(record) {
      if (named !== null) return named;
      return options.schema === 'legacy' || isLegacy(record) ? legacyJudge() : null;
    },
  };
}

function schemaAt(path: string, base: string): Judge {
  const file = resolve(base, path);
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw usageError(
      `--schema: expected a JSON Schema file or 'legacy', found ${(error as NodeJS.ErrnoException).code}: ${path}`,
    );
  }
  let schema: unknown;
  try {
    schema = JSON.parse(text);
  } catch (error) {
    throw dataError(`${path}: expected a JSON Schema, found: ${(error as Error).message}`);
  }
  const name = (path.split('/').at(-1) ?? path).replace(/(\.schema)?\.json$/, '');
  return { check: compileSchema(schema, path), name };
}

/** The item with every step (and the decision) that `judge` changed; the same item where it changed none. */
export function mapSteps(item: Item, judge: (step: Step) => Step): Item {
  const steps = item.steps?.map(judge);
  const decision = item.decision && judge(item.decision);
  const same = steps?.every((step, index) => step === item.steps?.[index]) ?? true;
  if (same && decision === item.decision) return item;
  return { ...item, ...(steps && { steps: same ? item.steps : steps }), ...(decision && { decision }) };
}

/** A step whose output was changed: what the model said is kept as `raw`, whatever was changed on the way. */
export function changedStep(step: Step, output: JsonObject, rung: Rung, repairs: readonly Repair[]): Step {
  const { agent, output: before, raw, problem: _problem, ...rest } = step;
  const said = raw ?? JSON.stringify(before);
  return {
    agent,
    output,
    raw: said,
    ...rest,
    rung: worse(step.output ? step.rung : 'clean', rung),
    repairs: [...((before && step.repairs) ?? []), ...repairs],
  };
}

/** Whether the last answer of a failed step is there to be read again: not where it was cut, by the server or by us. */
export function isReadable({ raw, whole, problem }: Step): boolean {
  return raw !== undefined && whole === undefined && problem?.code !== 'truncated';
}

/** Reads the last answer of a failed step again; the same step where it still does not fit, or was cut off. */
export function readAgain(step: Step, { check }: Judge, fixes: ReadonlySet<string>): Step {
  if (step.output !== undefined || !isReadable(step)) return step;
  const { output, rung, repairs, problem } = readAnswer(step.raw ?? '', check, { finish: 'stop', fixes });
  return output === undefined || problem !== undefined ? step : changedStep(step, output, rung, repairs);
}

/** A failed line that stands as text in its failure: it holds no value to judge, and must not pass for an empty one. */
export function standsAsText(item: Item): boolean {
  const isText = [item.failure?.text, item.failure?.base64].some(text => typeof text === 'string');
  return isText && Object.keys(item).every(key => key === 'failure' || key === 'id');
}

/** What a schema of records judges: the record without what fw adds to it; null for a line that stands as text. */
export function ownOf(record: Item): JsonObject | null {
  if (record.failure === undefined && record._fw === undefined) return record;
  if (standsAsText(record)) return null;
  const { failure: _failure, _fw, ...own } = record;
  return own;
}

/** A record with its mark: the worse of the rungs, the entries one after another. `before` is the mark that it had. */
export function marked(
  record: JsonObject,
  rung: Rung,
  repairs: readonly Repair[],
  before: unknown = undefined,
): Item {
  const earlier = before as Mark | undefined;
  const mark: Mark = {
    rung: worse(earlier?.rung ?? 'clean', rung),
    repairs: [...(earlier?.repairs ?? []), ...repairs],
  };
  return { ...record, _fw: mark } as unknown as Item;
}

/**
 * The line without its failure, once the agent that failed has an answer, and no other lacks one. Where nobody answered
 * at all there was nothing to judge again, and the failure stands.
 */
export function healed(item: Item): Item {
  const { failure, ...rest } = item;
  const answers = [...(item.steps ?? []), ...(item.decision ? [item.decision] : [])];
  const isAnswered = answers.some(step => step.agent === failure?.agent);
  return isAnswered && answers.every(step => step.output !== undefined) ? rest : item;
}
