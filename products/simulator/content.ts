/** What an answer says, before anything goes wrong with it: by the form that was asked for, and by the bias that is planted. */

import { type Bias, biasesIn, type Outcome, plantedIn, type Target, targetIn } from './bias.ts';
import type { Content } from './faults.ts';
import { text } from './filler-words.ts';
import { type Conversation, isLoan, studyWishes, TELLING, takesLoan, unguidedAnswer } from './loans/loans.ts';
import { SchemaError } from './node.ts';
import { textOfPattern } from './pattern-text.ts';
import type { Form } from './question.ts';
import { type Draws, PURPOSE, pick } from './random.ts';
import { badRequest } from './refusal.ts';
import type { KnownSchema } from './schemas.ts';

export interface ContentSettings {
  draws: Draws;
  /** @throws SchemaError */
  schemaOf: (schema: unknown) => KnownSchema;
  biases?: readonly Bias[];
  /** where they are planted */
  outcome?: Outcome;
}

export interface Said {
  content: Content;
  /** those that the application called for, and that are planted */
  biases: readonly Bias[];
}

/** `request` is the hash of the body. @throws Refusal */
export function contentOf(
  form: Form,
  conversation: Conversation,
  request: Parameters<Draws>[0],
  { biases = [], outcome = {}, draws, schemaOf }: ContentSettings,
): Said {
  const random = draws(request, PURPOSE.answer);
  const called = biasesIn(conversation.user, biases);
  const shift = called.reduce((sum, bias) => sum + bias.shift, 0);
  const targetOf = (known: Pick<KnownSchema, 'names' | 'spreads'>) =>
    biases.length > 0 ? targetIn(known, outcome) : undefined;
  const planted = (value: unknown, target: Target | undefined): unknown =>
    target && shift !== 0 ? plantedIn(value, target, shift, draws(request, PURPOSE.bias)) : value;
  const saidWith = (content: Content, target: unknown): Said => ({ content, biases: target ? called : [] });
  try {
    switch (form.kind) {
      case 'choice': {
        const { choices } = form;
        const target = targetOf({ names: new Set(), spreads: () => [{ chances: chancesOf(choices) }] });
        return saidWith({ words: planted(pick(random, choices), target) as string }, target);
      }
      case 'schema': {
        const known = schemaOf(form.schema);
        if (biases.length > 0 && isLoan(outcome) && takesLoan(known)) {
          const wishes = studyWishes(known.names, conversation, random, biases);
          const value = known.answer(random, wishes);
          const decision = (value as { [TELLING]?: unknown })[TELLING];
          // deeper down, or not at all where an answer need not have it
          if (shift !== 0 && decision !== undefined && decision !== wishes.get(TELLING))
            throw new SchemaError(`--bias: the schema takes no answer whose ${TELLING} is another one.`);
          return saidWith({ value, valid: known.valid }, true);
        }
        const target = targetOf(known);
        const wishes = studyWishes(known.names, conversation, random);
        const value = planted(known.answer(random, wishes), target);
        if (target && shift !== 0 && !known.valid(value))
          throw new SchemaError('--bias: the schema ties the outcome to other values: it fits no other one.');
        return saidWith({ value, valid: known.valid }, target);
      }
      default: {
        const valid = (value: unknown) => !holdsNull(value);
        const own = isLoan(outcome) ? biases : [];
        const answer = form.kind === 'regex' ? undefined : unguidedAnswer(conversation, random, own);
        const isElsewhere = answer === undefined && outcome.key !== undefined;
        if (biases.length > 0 && !isElsewhere && (answer === undefined || own.length === 0)) {
          throw badRequest(
            '--bias: expected a request with a schema or a choice, whose values tell the outcome, found none (--outcome KEY plants it only where the schema has that key).',
          );
        }
        if (form.kind === 'regex') return saidWith({ words: textOfPattern(form.pattern)(random) }, false);
        if (answer !== undefined) return saidWith({ value: answer, valid }, own.length > 0);
        const words = text(random, 20, 600);
        return saidWith(form.kind === 'free' ? { words } : { value: { answer: words }, valid }, false);
      }
    }
  } catch (error) {
    throw error instanceof SchemaError ? badRequest(error.message) : error;
  }
}

function chancesOf(choices: readonly string[]): Map<unknown, number> {
  const chances = new Map<unknown, number>();
  for (const choice of choices) chances.set(choice, (chances.get(choice) ?? 0) + 1 / choices.length);
  return chances;
}

function holdsNull(value: unknown): boolean {
  return value === null || (typeof value === 'object' && Object.values(value as object).some(holdsNull));
}
