/** What an answer in text must be, as a check beside those that JSON Schemas are. */
import { problem } from '../core/json/show.ts';
import { isBlank } from './blank.ts';
import type { SchemaFinding } from './findings.ts';
import { EMPTY, loopIn, REPEATS, repetitionIn } from './repetition.ts';
import { compileSchema } from './schema.ts';
import type { Check } from './schema-check.ts';

/** What a text must be, where not any text will do: one of these, or all of it what a regular expression matches. */
export interface TextForm {
  choice?: readonly string[];
  regex?: string;
}

/** The check of an answer in text. Exit 65, with `where` in front, where the regular expression is none that can be run. */
export function textCheck(form: TextForm, where: string): Check {
  const { choice, regex } = form;
  const isFree = choice === undefined && regex === undefined;
  const inner = compileSchema(
    {
      type: 'string',
      ...(choice && { enum: choice }),
      ...(regex !== undefined && { pattern: `^(?:${regex})$` }),
    },
    where,
  );
  const findings = (value: unknown, isChanged?: boolean): readonly SchemaFinding[] => {
    const found = inner.findings(value, isChanged);
    return found.length > 0 || !isFree ? found : findingsOfText(value as string);
  };
  return Object.assign((value: unknown) => findings(value), {
    findings,
    fittedLast: () => false,
    schema: inner.schema,
    text: { isFree },
  });
}

function findingsOfText(text: string): readonly SchemaFinding[] {
  const found = (keyword: string, expected: string, got: string): SchemaFinding[] => [
    { ...problem('', keyword, expected, got), instance: '', data: text, parent: {}, params: {} },
  ];
  if (isBlank(text)) return found(EMPTY, 'a text', 'nothing that can be seen');
  const loop = repetitionIn(text);
  return loop === null ? [] : found(REPEATS, 'a text that ends', loopIn(loop));
}
