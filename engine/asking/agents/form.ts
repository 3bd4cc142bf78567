/** By what the answers of an agent are judged: its schema, or that they are text. */

import { compileSchema, textCheck } from '../../answers/schema.ts';
import type { Check } from '../../answers/schema-check.ts';
import { kindsOf } from '../../answers/schema-words.ts';
import { dataError } from '../../core/item/failure.ts';
import type { JsonObject } from '../../core/json/pointer.ts';
import { type Agent, placeInSchema } from './agent-file.ts';
import { withOwnName } from './own-name.ts';

const known = new WeakMap<Agent, Check>();

/** Exit 65 where the schema of the agent does not compile. */
export function checkOf(agent: Agent): Check {
  const before = known.get(agent);
  if (before !== undefined) return before;
  const { schema, schemaPath, choice, regex } = agent;
  const form = { ...(choice && { choice }), ...(regex !== undefined && { regex }) };
  const own = schema === undefined ? textCheck(form, schemaPath) : checkOfSchema(agent, schema);
  const named = withOwnName(agent, own);
  const check = agent.text_after === undefined ? named : withTextAfter(named, agent.text_after);
  known.set(agent, check);
  return check;
}

function withTextAfter(check: Check, textAfter: 'accept' | 'refuse'): Check {
  if (textAfter === 'accept') return check;
  return Object.assign((value: unknown) => check(value), { ...check, textAfter });
}

function checkOfSchema(agent: Agent, schema: JsonObject): Check {
  const place = (pointer: string): string => placeInSchema(agent, pointer);
  const check = compileSchema(schema, place);
  const kinds = [...kindsOf(schema)].filter(kind => kind !== 'null');
  if (kinds.length > 0) return check;
  throw dataError(
    `${place('')}: expected a schema that some value fits, found one that allows none but null`,
  );
}
