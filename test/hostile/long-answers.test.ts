/** A server may send 16 MiB as an answer; what fw writes of it is a line that fw reads. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import { isTooLong, keptOf } from '../../engine/answers/answers-of-line.ts';
import { every, runs } from '../all.ts';
import { fw } from '../here.ts';

const MAX_LINE = 8 * 1024 * 1024;

/** An endpoint whose every answer is `text`. */
async function answering(text: string): Promise<string> {
  const model = JSON.stringify({ object: 'list', data: [{ id: 'm', object: 'model', max_model_len: 1e9 }] });
  const answer = JSON.stringify({
    choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: text } }],
    usage: { prompt_tokens: 1, completion_tokens: 1 },
  });
  const server = createServer((request, response) => {
    request.resume();
    request.on('end', () => {
      response.setHeader('content-type', 'application/json');
      response.end(request.url?.endsWith('/models') ? model : answer);
    });
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
}

const answer = {
  approval_decision: 'approve',
  approval_type: 'standard',
  interest_rate: 5,
  confidence_probability: 0.9,
  confidence_level: 'high',
  reasoning: { approval_decision: 'x', interest_rate: 'x', confidence_level: 'x' },
};

test.each(
  every(4, [
    ['no JSON at all', 'x'.repeat(15_000_000)],
    ['control characters', '\u0001'.repeat(1_000_000)],
    ['JSON with space around', `${' '.repeat(12_000_000)}${JSON.stringify(answer)}`],
    ['an object first, and then no end', `${JSON.stringify(answer)}${'x'.repeat(2_000_000)}`],
    ['half surrogate pairs', '\ud800'.repeat(1_000_000)],
  ]),
)('%s: refused, cut, and never taken for an answer again', async (_name, text) => {
  const url = await answering(text);
  const stdin = '{"id":"a","prompt":"?","ordering":["risk_manager"]}\n';
  const ran = await fw(
    `fw chain --max-body 16777216 --endpoint ${url} | fw fix-escapes | fw validate | fw null-fix | fw select --failed`,
    { stdin },
  );
  expect(ran.stdout.length, ran.stderr).toBeLessThan(MAX_LINE);
  const [step] = JSON.parse(ran.stdout).steps;
  expect(step).toMatchObject({ agent: 'risk_manager', rung: 'failed', problem: { code: 'no-json-found' } });
  expect(step.whole).toMatchObject({ bytes: Buffer.byteLength(text) });
  expect(step.rejected).toHaveLength(2);
  expect(ran.stdout.length).toBeLessThan(4 * 70_000);
});

test('what is kept of an answer fits, begins it, and names the whole where it is a part', () => {
  const units = fc.constantFrom('a', '"', '\u0001', 'é', '漢', '😀', '\ud83d');
  const texts = fc.tuple(units, units, fc.integer({ min: 0, max: 200_000 }));
  const property = fc.property(texts, ([first, second, length]) => {
    const text = (first + second).repeat(length);
    const { raw, whole } = keptOf(text);
    expect(Buffer.byteLength(JSON.stringify(raw))).toBeLessThanOrEqual(64 * 1024 + 6);
    expect(text.startsWith(raw.replace(/\ufffd+$/, '')) || /\ud83d/.test(text)).toBe(true);
    expect(raw === text).toBe(whole === undefined);
    expect(whole?.bytes ?? Buffer.byteLength(text)).toBe(Buffer.byteLength(text));
  });
  fc.assert(property, { seed: 20261120, numRuns: runs(50, 200) });
});

test('an answer may take a mebibyte of its line, the text and what was read from it together', () => {
  const most = 512 * 1024 - 10;
  expect(isTooLong('a'.repeat(most), { a: 'a'.repeat(most - 10) })).toBe(false);
  expect(isTooLong('a'.repeat(most), { a: 'a'.repeat(most + 40) })).toBe(true);
  expect(isTooLong('"'.repeat(most), { a: 'a'.repeat(40) })).toBe(true);
});
