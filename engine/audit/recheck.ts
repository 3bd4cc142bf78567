/**
 * Judging again what an item or a record already holds, without asking: what `validate`, `fix-escapes` and `null-fix`
 * share. A step is judged by its agent's schema, a legacy result by the packaged one, any other record by the schema
 * that was named, or by none.
 */
import { resolve } from 'node:path';
import { wordsOf } from '../answers/answers-of-line.ts';
import { readAnswer } from '../answers/read-answer.ts';
import { compileSchema } from '../answers/schema.ts';
import { type Check, ownCheck } from '../answers/schema-check.ts';
import { arrangementOf, sawIn, seenLast, turnsOf, wrongArrangement } from '../asking/agents/arrangement.ts';
import { checkOf } from '../asking/agents/form.ts';
import { type Agent, type Agents, folderOfAgents, loadAgentFiles } from '../asking/agents/load-agents.ts';
import { readSmallFile } from '../core/config/yaml.ts';
import { dataError, ItemFailure } from '../core/item/failure.ts';
import {
  type Item,
  isAnswered,
  isLegacy,
  isRawRequest,
  type Mark,
  type Repair,
  type Rung,
  type Step,
  worse,
} from '../core/item/item.ts';
import { type JsonObject, parsePointer } from '../core/json/pointer.ts';
import { visible } from '../core/json/visible.ts';
import type { OptionSchemas } from '../flow/options.ts';

export interface Judge {
  check: Check;
  /** the name by which defaults are found */
  name: string;
  /** places whose value is asked for again (an agent's `ask_again`), and never filled; `*` is any one token */
  asked(): string[][];
}

export const SCHEMA_OPTION = {
  schema: {
    type: 'string',
    file: 'read',
    from: 'base',
    description: 'JSON Schema for records: a path, or legacy. Default for legacy results: legacy.',
  },
} as const satisfies OptionSchemas;

/** `schema` is a path, or `legacy`; `agents` a folder. Both resolve from `base`, and are read when first needed. */
export function judges(options: { schema?: string; agents?: string }, base: string) {
  let agents: Agents | null = null;
  let legacy: Judge | null = null;
  const known = new Map<string, Judge>();
  const loaded = (): Agents => {
    agents ??= loadAgentFiles(folderOfAgents(options.agents, base));
    return agents;
  };
  const named =
    options.schema === undefined || options.schema === 'legacy'
      ? null
      : schemaAt(options.schema, base, name => askedOf(loaded(), agent => agent.schemaName === name));
  const legacyJudge = (): Judge => {
    legacy ??= {
      check: ownCheck('legacy'),
      name: 'legacy',
      asked: () => askedInLegacy(loaded()),
    };
    return legacy;
  };
  return {
    /** Throws ItemFailure (unknown-agent) for an agent that the folder does not have. */
    ofStep(key: string): Judge {
      const judge = known.get(key);
      if (judge !== undefined) return judge;
      const agent = loaded().byKey.get(key);
      if (agent === undefined) {
        const message = `expected an agent of the agents folder, found '${key}'`;
        throw new ItemFailure('unknown-agent', message, { agent: key });
      }
      const made: Judge = {
        check: checkOf(agent),
        name: agent.schemaName,
        asked: () => askedOf(loaded(), other => other === agent),
      };
      known.set(key, made);
      return made;
    },
    /** null where a record only has to be a JSON object */
    ofRecord(record: JsonObject): Judge | null {
      if (named !== null) return named;
      return options.schema === 'legacy' || isLegacy(record) ? legacyJudge() : null;
    },
  };
}

function askedOf({ byKey }: Agents, isMeant: (agent: Agent) => boolean): string[][] {
  return [...byKey.values()]
    .filter(isMeant)
    .flatMap(({ askAgain }) => (askAgain ? [parsePointer(askAgain.at)] : []));
}

/** The same places in a legacy result, where it has an answer there. */
function askedInLegacy(agents: Agents): string[][] {
  const decided = askedOf(agents, ({ role }) => role === 'synthesis');
  const answered = askedOf(agents, ({ role }) => role === 'agent');
  const turns = [['conversation_history', '*', 'output'], ['all_agent_outputs', '*'], ['final_output']];
  return [
    ...decided.map(at => ['business_decision', ...at]),
    ...answered.flatMap(at => turns.map(turn => [...turn, ...at])),
  ];
}

function schemaAt(path: string, base: string, asked: (name: string) => string[][]): Judge {
  const text = readSmallFile(resolve(base, path), 'a JSON Schema, or the word legacy for --schema');
  let schema: unknown;
  try {
    schema = JSON.parse(text);
  } catch (error) {
    throw dataError(`${path}: expected a JSON Schema, found: ${visible((error as Error).message)}`);
  }
  const name = (path.split('/').at(-1) ?? path).replace(/(\.schema)?\.json$/, '');
  return { check: compileSchema(schema, path), name, asked: () => asked(name) };
}

/**
 * The item with every step (and the decision) that `judge`, which is told where each is, changed; the same item where it changed none. What a server
 * answered to a raw request is nobody's to judge or to change.
 */
export function mapSteps(item: Item, judge: (step: Step, at: string) => Step): Item {
  if (isRawRequest(item.request)) return item;
  const steps = item.steps?.map((step, at) => judge(step, `/steps/${at}`));
  const decision = item.decision && judge(item.decision, '/decision');
  const same = steps?.every((step, index) => step === item.steps?.[index]) ?? true;
  if (same && decision === item.decision) return item;
  return withSaw({
    ...item,
    ...(steps && { steps: same ? item.steps : steps }),
    ...(decision && { decision }),
  });
}

/** Who was shown an answer that has a worse rung now saw no better one. */
function withSaw(item: Item): Item {
  const { steps = [], decision, ordering = steps.map(({ agent }) => agent) } = item;
  if (wrongArrangement(item)) return item;
  const arrangement = arrangementOf(item);
  const seen: Step[] = [];
  const raised = (step: Step, sees: readonly number[]): Step => {
    const saw = worse(step.saw, sawIn(sees.flatMap(turn => seen[turn] ?? [])));
    return saw === step.saw || step.saw === undefined ? step : { ...step, saw };
  };
  const turns = turnsOf(ordering, arrangement);
  for (const [at, step] of steps.entries()) seen.push(raised(step, turns[at]?.sees ?? []));
  return {
    ...item,
    ...(item.steps && { steps: seen }),
    ...(decision && { decision: raised(decision, seenLast(ordering, arrangement)) }),
  };
}

/**
 * A step whose output was changed: what the model said is kept as `raw`, whatever was changed on the way. An output with
 * neither `raw` nor its hash may be anybody's (an answer that was read back from a legacy result, or of version 0.1.0).
 */
export function changedStep(step: Step, output: unknown, rung: Rung, repairs: readonly Repair[]): Step {
  const { agent, output: before, raw, problem: _problem, ...rest } = step;
  // with its hash, so that verify finds it where the output was edited before
  const isKnown = raw !== undefined || step.sha256 !== undefined || before === undefined;
  const said = isKnown ? { raw: raw ?? wordsOf(before) } : {};
  return {
    agent,
    output,
    ...said,
    ...rest,
    rung: worse(before === undefined ? 'clean' : step.rung, rung),
    repairs: [...((before !== undefined && step.repairs) || []), ...repairs],
  };
}

/** Whether the last answer of a failed step is there to be read again: not where it was cut, by the server or by us. */
export function isReadable({ raw, whole, problem }: Step): boolean {
  // a loop mostly ends at the limit, and then nobody knows how the server said that it ended
  const isCut = problem?.code === 'truncated' || problem?.code === 'repeats-itself';
  return raw !== undefined && whole === undefined && !isCut;
}

/** Reads the last answer of a failed step again; the same step where it still does not fit, or was cut off. */
export function readAgain(step: Step, { check }: Judge, fixes: ReadonlySet<string>): Step {
  if (step.output !== undefined || !isReadable(step)) return step;
  const { output, rung, repairs, problem } = readAnswer(step.raw ?? '', check, { finish: 'stop', fixes });
  return output === undefined || problem !== undefined ? step : changedStep(step, output, rung, repairs);
}

/** A failed line that is kept as text in its failure: it holds no value to judge, and must not pass for an empty one. */
export function standsAsText(item: Item): boolean {
  const isText = [item.failure?.text, item.failure?.base64].some(text => typeof text === 'string');
  return isText && Object.keys(item).every(key => key === 'failure' || key === 'id');
}

/** What a schema of records judges: the record without what fw adds to it; null for a line that is kept as text. */
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
 * at all there was nothing to judge again, and the failure is kept.
 */
export function healed(item: Item): Item {
  const { failure, ...rest } = item;
  const answers = [...(item.steps ?? []), ...(item.decision ? [item.decision] : [])];
  const isHealed = answers.some(step => step.agent === failure?.agent);
  return isHealed && answers.every(isAnswered) ? rest : item;
}
