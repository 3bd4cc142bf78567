/**
 * What the first request of an item begins with, for the order in which items are asked: nothing of it enters a body, a key or
 * an output. What all items have in common, such as a persona, tells none of them apart, and is left out.
 */
import type { Begins } from '../../core/item/call.ts';
import { ItemFailure } from '../../core/item/failure.ts';
import type { Item } from '../../core/item/item.ts';
import { isObject, type JsonObject } from '../../core/json/pointer.ts';
import type { Agent, Agents } from './load-agents.ts';
import { rowIdOf } from './orderings.ts';
import type { Openings } from './request-body.ts';

/** Of the items that agents are asked about: a persona that is a template, then the item's own messages, or its prompt. */
export function beginsOfItem(agents: Agents, openings: Openings): (item: Item) => Begins | null {
  const written = [...agents.byKey.values()].find(({ template }) => template);
  const personaOf = (agent: Agent, item: Item): string | undefined => {
    try {
      return openings(agent, item, false).opening?.before;
    } catch (error) {
      if (error instanceof ItemFailure) return undefined; // it names answers that are not there yet, or fails once it is asked
      throw error;
    }
  };
  return item => {
    if (typeof item.id !== 'string') return null;
    const { row, label } = rowIdOf(item, agents);
    const texts = (): string[] => {
      const { messages, prompt, ...rest } = item;
      const persona = written && personaOf(written, rest);
      const all = persona === undefined ? [] : [persona];
      addTexts(all, prompt ?? messages);
      return all;
    };
    return { model: '', name: label === '' ? item.id : row, texts };
  };
}

/** Nests as deep as chat messages with parts do. */
export function addTexts(texts: string[], value: unknown, depth = 0): void {
  if (typeof value === 'string') texts.push(value);
  else if (Array.isArray(value) && depth < 2) for (const one of value) addTexts(texts, one, depth + 1);
  else if (isObject(value) && 'content' in value) {
    const { role, content } = value as JsonObject;
    if (typeof role === 'string') texts.push(role);
    addTexts(texts, content, depth);
  } else if (isObject(value) && typeof value.text === 'string') texts.push(value.text);
  else if (value !== undefined && value !== null) texts.push(JSON.stringify(value));
}
