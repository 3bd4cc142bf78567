/** The errors of ajv as problems: where, what the schema expected, what was there. */
import type { ErrorObject } from 'ajv';
import { type JsonObject, join } from '../core/json/pointer.ts';
import { type Problem, problem, shorten, show } from '../core/json/show.ts';
import { type SumRule, total } from './sum.ts';

/** A problem with what coercion needs: the value judged, the schema that judged it, and where that value is. */
export interface SchemaFinding extends Problem {
  instance: string;
  data: unknown;
  parent: JsonObject;
  params: JsonObject;
}

/** A finding about a value that a bound kept from being judged. */
export function unbounded(data: unknown, expected: string): SchemaFinding[] {
  return [{ ...problem('', 'x-fw-bound', expected, 'more'), instance: '', data, parent: {}, params: {} }];
}

export function findingsOf(errors: readonly ErrorObject[]): SchemaFinding[] {
  return errors.map(error => {
    const { keyword, instancePath: instance, data } = error;
    const params = error.params as JsonObject;
    const parent = (error.parentSchema ?? {}) as JsonObject;
    const key = params.missingProperty ?? params.additionalProperty ?? params.unevaluatedProperty;
    const at = typeof key === 'string' ? join(instance, key) : instance;
    const [expected, got] = words(error, params);
    return { ...problem(at, keyword, expected, got), instance, data, parent, params };
  });
}

function words({ keyword, data, schema, message }: ErrorObject, params: JsonObject): [string, string] {
  switch (keyword) {
    case 'type':
      return [[params.type].flat().join(' or '), show(data)];
    case 'enum':
      return [`one of ${shortList(schema as unknown[])}`, show(data)];
    case 'const':
      return [show(schema), show(data)];
    case 'required':
    case 'dependentRequired':
    case 'dependencies':
      return ['a value', 'nothing'];
    case 'additionalProperties':
    case 'unevaluatedProperties':
      return ['no such property', 'one'];
    case 'false schema':
      return ['no value', show(data)];
    case 'minimum':
    case 'maximum':
    case 'exclusiveMinimum':
    case 'exclusiveMaximum':
      return [`a number ${params.comparison} ${params.limit}`, show(data)];
    case 'multipleOf':
      return [`a multiple of ${params.multipleOf}`, show(data)];
    case 'minLength':
    case 'maxLength':
      return [`${keyword === 'minLength' ? 'at least' : 'at most'} ${params.limit} characters`, show(data)];
    case 'minItems':
    case 'maxItems':
      return [`${keyword === 'minItems' ? 'at least' : 'at most'} ${params.limit} items`, show(data)];
    case 'pattern':
      return [`text that matches ${shorten(String(params.pattern))}`, show(data)];
    case 'format':
      return [`text in the format ${params.format}`, show(data)];
    case 'x-fw-sum': {
      const rule = schema as SumRule;
      return [`${shortList(rule.of)} to sum to ${rule.is}`, String(total(rule, data as JsonObject))];
    }
    case 'uniqueItems':
      return ['items that differ', 'two that are equal'];
    case 'anyOf':
    case 'oneOf':
      return [
        `${keyword === 'oneOf' ? 'exactly ' : ''}one of ${(schema as unknown[]).length} forms`,
        show(data),
      ];
    case 'not':
      return [`none of what ${shorten(JSON.stringify(schema))} allows`, show(data)];
    default:
      return [`it to ${message?.replace('must ', '') ?? `meet ${keyword}`}`, show(data)];
  }
}

function shortList(values: readonly unknown[]): string {
  const named = values.slice(0, 8).map(show).join(', ');
  return values.length > 8 ? `${named}, …` : named;
}
