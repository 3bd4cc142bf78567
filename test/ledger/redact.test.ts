/** --redact: texts that a ledger must not keep are in no request of it, and the calls are still found again. */
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { redactOwn } from '../../engine/asking/ledger/redact.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';
import { holds } from '../integrity/property.ts';
import { serve } from '../pool/serving.ts';
import { callsOf, makeAgents, textOf } from './reading.ts';

const NAME = 'Ann "Nan" O\\Neil';
const escaped = JSON.stringify(NAME).slice(1, -1);

test('the texts are sent and answered, kept in no request, and the same command asks nothing', async () => {
  const at = folder();
  const agents = makeAgents(at);
  const sent: string[] = [];
  const fake = await serve(({ n, body, answer, send }) => {
    sent.push(body);
    if (n === 1) send(500, { error: { message: `cannot judge ${NAME}` } });
    else answer(JSON.stringify({ says: `${NAME}, who is 44, may have 1400` }));
  });
  writeFileSync(
    join(at, 'in.csv'),
    `id,name,age,prompt\na,"${NAME.replaceAll('"', '""')}",44,"Judge ${NAME.replaceAll('"', '""')}, aged 44."\n`,
  );
  const redacted = '--redact /input/name --redact /input/age';
  const line = `fw ingest in.csv | fw chain --agents ${agents} --no-decision --ledger led ${redacted}`;
  const ran = await fw(`${line} --endpoint ${fake.url}`, { cwd: at });
  expect(ran.code, ran.stderr).toBe(0);
  expect(sent.at(-1)).toContain(JSON.stringify(escaped).slice(1, -1));

  const calls = callsOf(join(at, 'led'));
  expect(calls.map(({ outcome, redacted }) => [outcome, redacted])).toEqual([
    ['HTTP 500', true],
    ['answer', true],
    ['answer', true],
  ]);
  for (const { request, detail } of calls) {
    expect(JSON.stringify(request)).not.toMatch(/Nan|Neil|44/);
    expect(JSON.stringify(request)).toContain('Judge [redacted], aged [redacted].');
    expect(detail ?? '[redacted]').toBe('[redacted]');
  }
  // an answer is what the model said
  expect(calls.at(-1)?.answer).toContain(escaped);

  const checked = await fw('fw ledger check --read-data', { cwd: at, env: { FW_LEDGER: 'led' } });
  expect(checked).toMatchObject({ code: 0 });
  expect(checked.stdout).toContain(
    'that fit their requests 0 · that cannot be checked, since texts were redacted 3',
  );
  const exported = await fw('fw ledger export --ledger led', { cwd: at });
  expect(exported.stdout.match(/"redacted":true/g)).toHaveLength(3);

  const before = textOf(join(at, 'led'));
  const again = await fw(line, { cwd: at });
  expect(again).toMatchObject({ code: 0, stdout: ran.stdout });
  expect(again.stderr).toContain('0 calls + 2 replayed');
  expect(textOf(join(at, 'led'))).toBe(before);
});

test('a pointer leads to all texts below it, and one that leads nowhere is told', async () => {
  const at = folder();
  const agents = makeAgents(at);
  const fake = await serve(({ answer }) => answer('{"says":"no"}'));
  const items = [
    { id: 'a', prompt: 'Judge Ann of Lund.', input: { who: { name: 'Ann', towns: ['Lund'] } } },
    { id: 'b', prompt: 'Judge Bo.', input: {} },
    { id: 'c', prompt: 'Judge Cy.', input: {} },
  ];
  const stdin = items.map(item => `${JSON.stringify(item)}\n`).join('');
  const ran = await fw(
    `fw chain --agents ${agents} --no-decision --redact /input/who --ledger led --endpoint ${fake.url}`,
    { cwd: at, stdin },
  );
  expect(ran.code, ran.stderr).toBe(0);
  expect(ran.stderr.match(/--redact \/input\/who: the item \w has nothing there/g)).toHaveLength(1);
  const ledger = textOf(join(at, 'led'));
  expect(ledger).toContain('Judge [redacted] of [redacted].');
  expect(ledger).toContain('Judge Bo.');
  rmSync(join(at, 'led'), { recursive: true });
  const wrong = await fw(`fw chain --agents ${agents} --redact name --endpoint ${fake.url}`, {
    cwd: at,
    stdin,
  });
  expect(wrong).toMatchObject({ code: 64 });
  expect(wrong.stderr).toContain("--redact: expected a JSON Pointer such as /input/name, found 'name'");
});

test('a name within a longer one leaves no rest of it', () => {
  const own = '{"role":"user","content":"Ann Lee and Ann"}],"temperature":0,"seed":1';
  expect(redactOwn(own, ['Ann', 'Ann Lee', '', ' '])).toBe(
    '{"role":"user","content":"[redacted] and [redacted]"}],"temperature":0,"seed":1',
  );
});

test('whatever the texts, what is kept is JSON of the same shape without them', () => {
  // letters of `[redacted]` would be found in what stands for the texts
  const text = fc.string({
    unit: fc.constantFrom('1', '0', '"', '\\', '\n', 'x', '$', '(', '.', 'é', '😀'),
    minLength: 1,
  });
  const cases = fc.record({
    secrets: fc.array(text, { maxLength: 4 }),
    around: fc.array(fc.oneof(text, fc.string()), { maxLength: 3 }),
  });
  holds(cases, ({ secrets, around }) => {
    const contents = around.map((one, index) => `${one}${secrets[index] ?? ''}${JSON.stringify(secrets)}`);
    const messages = contents.map(content => ({ role: 'user', content }));
    const own = JSON.stringify({ messages, temperature: 0.1, seed: 101 }).slice('{"messages":['.length, -1);
    const kept = JSON.parse(`{"messages":[${redactOwn(own, secrets)}}`);
    expect([kept.temperature, kept.seed, kept.messages.length]).toEqual([0.1, 101, messages.length]);
    for (const { content } of kept.messages)
      for (const secret of secrets.filter(one => one.trim() !== '')) expect(content).not.toContain(secret);
  });
});
