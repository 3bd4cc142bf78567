/**
 * What must hold of a ledger and of the last output after any schedule of faults and the runs that went on, whatever
 * happened in between; by the endpoints' own memory of what they were asked and what they said.
 */
import { readFileSync } from 'node:fs';
import { expect } from 'vitest';
import { bodyOf } from '../../engine/asking/ledger/request-texts.ts';
import { filesOf } from '../../engine/asking/ledger/scan-files.ts';
import { AGENTS, type Endpoints, sha256, wordOf } from './endpoint.ts';

interface Step {
  agent: string;
  output: { word: string; nonce: string };
  rung: string;
  calls: string[];
  attempts: number;
}

/** One process of the schedule, and how it ended. */
export interface Ended {
  code: number;
  stderr: string;
}

export interface History {
  ids: readonly string[];
  ledger: string;
  endpoints: Endpoints;
  ends: readonly Ended[];
  /** calls that may have been in flight when a process was stopped or killed, summed up */
  inFlight: number;
  /** the output of the last run, and of one more after it, which asked `more` */
  output: string;
  again: string;
  more: number;
}

interface Recorded {
  key: string;
  item: string;
  agent: string;
  answer: string;
  body: string;
}

const TABLE = new Set([0, 1, 64, 69, 74, 129, 130, 137, 143]);

export function check({ ids, ledger, endpoints, ends, inFlight, output, again, more }: History): void {
  const items = output
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line) as { id: string; failure?: object; steps: Step[] });
  const answers = answersIn(ledger);
  const first = new Map<string, Recorded>();
  for (const answer of answers) if (!first.has(answer.key)) first.set(answer.key, answer);

  // 1: each item once, and finished
  expect(items.map(({ id }) => id).sort()).toEqual([...ids].sort());
  expect(items.filter(({ failure }) => failure !== undefined)).toEqual([]);

  // 2: each answer on record was sent, for this item, this agent and these very bytes, and is there once
  const nonces = answers.map(({ answer }) => JSON.parse(answer).nonce as string);
  expect(new Set(nonces).size).toBe(nonces.length);
  for (const [n, { item, agent, body }] of answers.entries()) {
    expect(endpoints.sent.get(nonces[n] as string)).toEqual({ item, agent, body: sha256(body) });
  }

  // 3: each agent was shown the answer that is on record, and what the item says is on record
  for (const { id, steps } of items) {
    expect(steps.map(({ agent }) => agent)).toEqual([...AGENTS]);
    for (const [k, { agent, output: said, calls }] of steps.entries()) {
      const call = first.get(calls.at(-1) as string);
      expect(call).toMatchObject({ item: id, agent, answer: JSON.stringify(said) });
      for (const earlier of steps.slice(0, k)) expect(call?.body).toContain(earlier.output.nonce);
    }
  }

  // what was used to ask on was on record by then
  for (const nonce of endpoints.used) expect(nonces).toContain(nonce);

  // 4: no more calls were answered than were needed and in flight
  const needed = ids.length * AGENTS.length;
  expect(endpoints.sent.size - needed).toBeLessThanOrEqual(inFlight);

  // 5: the output is what it would have been
  for (const { id, steps } of items) {
    const said = steps.map(({ agent, output: { word }, rung, attempts }) => ({
      agent,
      word,
      rung,
      attempts,
    }));
    expect(said).toEqual(
      AGENTS.map(agent => ({ agent, word: wordOf(id, agent), rung: 'clean', attempts: 1 })),
    );
  }

  // 6: one more run asks nothing and says the same
  expect(more).toBe(0);
  expect(again.split('\n').sort()).toEqual(output.split('\n').sort());

  // 7 and 8: every process ended as the table says, and in words
  for (const { code, stderr } of ends) {
    expect(TABLE, stderr).toContain(code);
    expect(stderr).not.toMatch(/^\s+at .*:\d+:\d+\)?$/m);
    expect(stderr).not.toContain('a bug');
  }
}

/** All answers of the ledger files in a folder, and in those below it. */
export function answersIn(ledger: string): Recorded[] {
  const texts = new Map<string, string>();
  const found: Recorded[] = [];
  for (const path of filesOf(ledger)) {
    for (const line of readFileSync(path, 'utf8').split('\n')) {
      if (!line.endsWith('"}')) continue; // the torn tail of one that was killed
      const entry = JSON.parse(line);
      if ('text' in entry) texts.set(entry.text, entry.content);
      else if (entry.outcome === 'answer') {
        const { key, item, agent, answer } = entry;
        found.push({
          key,
          item,
          agent,
          answer,
          body: bodyOf(Buffer.from(line), id => texts.get(id) ?? null) ?? '',
        });
      }
    }
  }
  return found;
}
