/**
 * Raw requests that are asked once (--once): those that say the same to the same model, and that are answered alike each time.
 * Such a request has a name of its own, made of what it says, in the place of the item's id: so equal ones have one key, one
 * call and one line of the ledger, and each item names the question that was asked (`shared`). As answers of chains do with
 * --share.
 */
import { hash } from 'node:crypto';
import type { Call } from '../../core/item/call.ts';
import type { Code } from '../../core/item/codes.ts';
import { writesNothing } from '../../core/item/dialects.ts';
import type { Response } from '../../core/item/item.ts';
import { type Item, isRawRequest, type RawRequest, type Usage } from '../../core/item/item.ts';
import { isObject } from '../../core/json/pointer.ts';

/** What a name begins with. */
const SAME = 'same/';

/**
 * The name that all equal requests have: the same URL and the same body, but for white space. Null of one that may be answered
 * otherwise the next time: its temperature is not 0 (unset it is the server's), it names no model, or it is a sample.
 */
export function questionOf({ request, sample }: Item): string | null {
  if (sample !== undefined || !isRawRequest(request) || !isObject(request.body)) return null;
  const { url, body } = request as RawRequest;
  if (typeof body.model !== 'string' || body.model === '') return null;
  if (body.temperature !== 0 && !writesNothing(url)) return null;
  return SAME + hash('sha256', `${url}\n${JSON.stringify(body)}`, 'hex').slice(0, 32);
}

/** Whether it is such a name. */
export const isQuestion = (name: string): boolean => /^same\/[0-9a-f]{32}$/.test(name);

/** Whether the call is that of all equal requests. */
export const isOfEquals = ({ raw, item }: Call): boolean => raw === true && isQuestion(item);

/** Why a question has no answer in this run. */
export interface Unanswered {
  call: Call;
  code: Code;
  message: string;
  response?: Response | undefined;
  usage?: Usage | undefined;
}

/** Equal requests are asked about one behind the other, so that no more than the last ones are wanted again. */
const REMEMBERED = 256;

/** Questions that failed: an equal one fails for the same reason, and is not asked. What was answered the ledger has. */
export class FailedQuestions {
  readonly #failed = new Map<string, Unanswered>();

  get(name: string | null): Unanswered | undefined {
    return name === null ? undefined : this.#failed.get(name);
  }

  /** Call bodies are let go. */
  note(name: string | null, why: Unanswered): void {
    if (name === null || this.#failed.has(name)) return;
    this.#failed.set(name, { ...why, call: { ...why.call, body: Buffer.alloc(0) } });
    if (this.#failed.size > REMEMBERED) this.#failed.delete(this.#failed.keys().next().value as string);
  }
}
