/**
 * Requests that a server refused: asking it again would not help. Another endpoint is asked once, for one that refuses
 * whatever it is sent (a wrong key, a login before it, another version) is always the emptiest, and would fail most of a
 * run. Where that one refuses too, the item fails. A person is told the words of each new kind of refusal once. Where
 * nothing but refusals comes back, the fault is not in the items: the run ends.
 */
import { CallFailure } from '../flow/call.ts';
import { type Fatal, unavailable } from '../flow/failure.ts';
import { refusedKey } from './probe.ts';
import { isTooLong, lengthNumbers } from './retry.ts';
import type { Key } from './secret.ts';
import type { Reply } from './wire.ts';
import { serverWords } from './words.ts';

/** Refusals before a run that had no answer is given up in the middle … */
const ENOUGH = 20;
/** Kinds of refusal that are told; a server that words each one differently must not flood the terminal. */
const TOLD = 10;

export interface Refusals {
  /** What a reply that refuses a call means for it, and tells a person if it is news. */
  failureOf(url: string, reply: Reply): CallFailure;
  /** A model answered, or could have: whatever is refused from now on is about single items. */
  noteAnswer(): void;
  /**
   * The call fails: no other endpoint is there to be asked, or it refused as well. Returns what ends the run in the
   * middle, because enough calls were refused and none was answered. `pending` is how many calls have no outcome yet:
   * while those are more than the refused ones, refusals may only be what comes back first.
   */
  noteFinal(url: string, failure: CallFailure, pending: number): Fatal | undefined;
  /** What ends the run at its end, because calls were refused and none was answered: a few are enough then. */
  verdict(): Fatal | undefined;
}

export function createRefusals(
  key: Key | undefined,
  maxModelLength: number | undefined,
  warn: (message: string) => void,
): Refusals {
  const told = new Set<string>();
  let refused = 0;
  let answered = false;
  let last = '';

  function tell(url: string, kind: string, message: string): void {
    if (told.has(kind) || told.size > TOLD) return;
    told.add(kind);
    warn(
      told.size > TOLD
        ? 'further kinds of refusals are only counted'
        : `${url} refused a request: ${message}`,
    );
  }

  function tooLong(reply: Reply, words: string): CallFailure {
    answered = true;
    const limit = maxModelLength === undefined ? '' : `the model takes ${maxModelLength} tokens`;
    const numbers = [lengthNumbers(reply.body), limit].filter(text => text !== '').join('; ');
    return new CallFailure(
      'prompt-too-long',
      `The prompt does not fit${numbers && ` (${numbers})`}; the server says: "${words}"`,
    );
  }

  function verdict(): Fatal | undefined {
    if (answered || refused === 0) return undefined;
    return unavailable(
      `expected answers, found none: ${refused} of the calls were refused, the last by ${last}\n` +
        'set right what the server complains about and run again',
    );
  }

  return {
    failureOf(url, reply) {
      const words = serverWords(reply.body, key);
      if (isTooLong(reply.status, reply.body)) return tooLong(reply, words);
      const unauthorised = reply.status === 401 || reply.status === 403;
      const said = words === '' ? '' : `: "${words}"`;
      const message = `${unauthorised ? refusedKey(reply.status, key) : `HTTP ${reply.status}`}${said}`;
      tell(url, `${reply.status} ${words.replace(/\d+/g, '#')}`, message);
      return new CallFailure('call-refused', message);
    },
    noteFinal(url, { code, message }, pending) {
      if (code === 'call-refused') {
        refused++;
        last = `${url}: ${message}`;
      }
      return refused >= ENOUGH && refused >= pending ? verdict() : undefined;
    },
    noteAnswer() {
      answered = true;
    },
    verdict,
  };
}
