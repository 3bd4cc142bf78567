/**
 * What is asked again, when, and how often: the rules as data and pure functions. The loop that applies them is in
 * pool.ts.
 */
import type { Ticket } from './ticket.ts';

/** Tries of one call that reached a server. A connection that could not be made is none: nothing was asked. */
export const TRIES = 6;

/** Times that a server may be full and send a call away, or fail as all do, which costs no try. Long before, that ends the run. */
export const AWAY = 1_000;

/** Answers that another try can change, beside every 5xx: a timeout of the server, and being sent away for now. */
const AGAIN = new Set([408, 429]);
/** 5xx that another try cannot change: the server does not know how. */
const NEVER = new Set([501, 505]);

export function isRetried(status: number): boolean {
  return AGAIN.has(status) || (status >= 500 && !NEVER.has(status));
}

/** The server is full, or behind a proxy that says so: another try is no second chance but the first one. */
export function isSentAway(status: number): boolean {
  return status === 429 || status === 503;
}

/** Exponential with jitter between half and whole, so that calls which failed together do not return together. */
export function backoff(tries: number, base: number, cap: number, random: () => number): number {
  const full = Math.min(cap, base * 2 ** (tries - 1));
  return full * (0.5 + random() / 2);
}

/** Retry-After (RFC 9110 10.2.3: seconds or an HTTP date) in milliseconds, at most `cap`; undefined if unreadable. */
export function readRetryAfter(value: string | undefined, date: number, cap: number): number | undefined {
  if (value === undefined || value.length > 64) return undefined;
  const ms = /^\s*\d{1,12}(\.\d{1,6})?\s*$/.test(value) ? Number(value) * 1000 : Date.parse(value) - date;
  return Number.isNaN(ms) ? undefined : Math.min(cap, Math.max(0, ms));
}

/**
 * Retries over a whole run: `share` of the calls, and `floor` on top so that a small run can lose every call that is
 * in flight at one moment (an endpoint that dies) and still finish. Without a bound, servers in trouble would be
 * asked six times as much as healthy ones.
 */
export interface Budget {
  share: number;
  floor: number;
  spent: number;
}

export function takeRetry(budget: Budget, calls: number): boolean {
  if (budget.spent >= budget.floor + budget.share * calls) return false;
  budget.spent++;
  return true;
}

/** The try was lost with its endpoint: no fault of the call, and nothing that the budget is there to bound. */
export function giveBack(budget: Budget, ticket: Ticket): void {
  if (ticket.tries === 0) return;
  ticket.tries--;
  budget.spent--;
}

/** How vLLM, llama.cpp and OpenAI say that a prompt does not fit. */
const TOO_LONG = [
  'maximum context length',
  'maximum model length',
  'context_length_exceeded',
  'exceed_context_size_error',
  'exceeds the available context size',
  'n_ctx',
];

/** Whether a refusal (400 or 413) with this body is about the length of the prompt. */
export function isTooLong(status: number, body: Buffer): boolean {
  if (status !== 400 && status !== 413) return false;
  const text = body.toString('utf8', 0, 65_536).toLowerCase();
  return TOO_LONG.some(words => text.includes(words));
}

/** llama.cpp gives its numbers beside its words: `{"error": {"n_prompt_tokens": 5120, "n_ctx": 4096, …}}`. */
export function lengthNumbers(body: Buffer): string {
  const text = body.toString('utf8', 0, 65_536);
  const prompt = /"n_prompt_tokens"\s{0,9}:\s{0,9}(\d{1,12})/.exec(text)?.[1];
  const context = /"n_ctx"\s{0,9}:\s{0,9}(\d{1,12})/.exec(text)?.[1];
  return prompt && context ? `${prompt} tokens where the context has ${context}` : '';
}
