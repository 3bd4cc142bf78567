/**
 * Whether a line has the types that a stage relies on. Lines come from anywhere, and one with a wrong type must fail
 * alone. By hand, since every stage asks this of every line: a few typeofs a step. What is not used is not looked at.
 */
import { isObject, type JsonObject } from '../json/pointer.ts';
import { show } from '../json/show.ts';
import { ItemFailure } from './failure.ts';
import { isItem, isRawRequest, RUNGS } from './item.ts';

/** What is wrong first, as `expected …, found …`; null where nothing is. Failures are failureOf's. */
export function wrongShape(line: JsonObject): string | null {
  const { _fw } = line;
  if (_fw !== undefined) {
    const wrong = isObject(_fw)
      ? wrongRung(_fw, '/_fw')
      : expected('a mark with rung and repairs', '/_fw', _fw);
    if (wrong) return wrong;
  }
  if (!isItem(line)) return null;
  const { id, prompt, request, ordering, steps, decision } = line as JsonObject;
  // a number is an id elsewhere, and only stages that ask need text
  if (id !== null && typeof id !== 'string' && typeof id !== 'number') return expected('text', '/id', id);
  if (prompt !== undefined && typeof prompt !== 'string') return expected('text', '/prompt', prompt);
  if (isRawRequest(request)) {
    const wrong = wrongRequest(request);
    if (wrong) return wrong;
  }
  if (ordering !== undefined && !isTexts(ordering)) {
    return expected('a list of agents', '/ordering', ordering);
  }
  if (steps !== undefined) {
    if (!Array.isArray(steps)) return expected('a list of steps', '/steps', steps);
    for (let at = 0; at < steps.length; at++) {
      const wrong = wrongStep(steps[at], `/steps/${at}`);
      if (wrong) return wrong;
    }
  }
  return decision === undefined ? null : wrongStep(decision, '/decision');
}

function wrongRequest({ method, url, body }: JsonObject): string | null {
  if (typeof method !== 'string') return expected('text', '/request/method', method);
  if (typeof url !== 'string') return expected('text', '/request/url', url);
  return isObject(body) ? null : expected('an object', '/request/body', body);
}

function wrongStep(step: unknown, at: string): string | null {
  if (!isObject(step)) return expected('a step', at, step);
  const { agent, output, response, raw, saw, round, problem } = step;
  if (typeof agent !== 'string') return expected('text', `${at}/agent`, agent);
  if (output === null) return expected('an answer', `${at}/output`, output);
  if (response !== undefined && !(isObject(response) && Number.isSafeInteger(response.status_code)))
    return expected('a response with its status_code', `${at}/response`, response);
  if (raw !== undefined && typeof raw !== 'string') return expected('text', `${at}/raw`, raw);
  if (saw !== undefined && !RUNGS.includes(saw as never)) return expected('a rung', `${at}/saw`, saw);
  if (round !== undefined && !Number.isSafeInteger(round)) return expected('a number', `${at}/round`, round);
  if (problem !== undefined && !isObject(problem)) return expected('an object', `${at}/problem`, problem);
  return wrongRung(step, at);
}

function wrongRung({ rung, repairs }: JsonObject, at: string): string | null {
  if (!RUNGS.includes(rung as never)) return expected('a rung', `${at}/rung`, rung);
  if (repairs !== undefined && !Array.isArray(repairs)) return expected('a list', `${at}/repairs`, repairs);
  return null;
}

export function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every(text => typeof text === 'string');
}

function expected(what: string, at: string, found: unknown): string {
  return `expected ${what} at ${at}, found ${show(found)}`;
}

/** The messages that a value is, as the server takes them. Throws ItemFailure `bad-messages`. */
export function chatMessages(messages: unknown): JsonObject[] {
  if (!Array.isArray(messages) || messages.length === 0)
    throw badMessages(`expected a list of chat messages, found ${show(messages)}`);
  for (const [index, message] of messages.entries()) {
    const at = `message ${index + 1}`;
    if (!isObject(message) || typeof message.role !== 'string')
      throw badMessages(`${at}: expected an object with a role and a content, found ${show(message)}`);
    const { content } = message;
    const isParts =
      Array.isArray(content) &&
      content.length > 0 &&
      content.every(part => isObject(part) && typeof part.type === 'string');
    if (typeof content !== 'string' && !isParts)
      throw badMessages(
        `${at}: expected a content, text or a list of parts with a type, found ${show(content)}`,
      );
  }
  return messages as JsonObject[];
}

export function badMessages(message: string): ItemFailure {
  return new ItemFailure('bad-messages', message);
}
