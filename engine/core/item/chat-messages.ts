/** Chat messages that an item may have in place of a prompt. */
import { isObject, type JsonObject } from '../json/pointer.ts';
import { show } from '../json/show.ts';
import { ItemFailure } from './failure.ts';

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
