/** An API key is in no file of a ledger, whatever servers do with it. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';
import { type Ask, serve } from '../pool/serving.ts';
import { callsOf, makeAgents } from './reading.ts';

const KEY = 'sk-live-51H+/x"q8vTz4';
/** The forms in which a server might hand it back. */
const FORMS = [
  KEY,
  JSON.stringify(KEY).slice(1, -1),
  encodeURIComponent(KEY),
  Buffer.from(KEY).toString('base64'),
  Buffer.from(KEY).toString('hex'),
];

function everything(folder: string): string {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => `${entry.name}\n${readFileSync(join(entry.parentPath, entry.name), 'utf8')}`)
    .join('\n');
}

test('keys that servers hand back in errors, answers and names of models', async () => {
  const at = folder();
  const agents = makeAgents(at);
  const ways: ((ask: Ask) => void)[] = [
    ask => ask.send(500, { error: { message: `no place for Bearer ${KEY}` } }),
    ask => ask.send(503, `<p>${FORMS[3]} ${FORMS[4]} ${FORMS[2]}`),
    ask => ask.send(200, `not JSON: ${KEY}`),
    ask => ask.answer(JSON.stringify({ says: KEY })),
    ask => ask.answer('{"says":"yes"}', { usage: KEY, system_fingerprint: KEY }),
    ask => ask.answer('{"says":"yes"}', { id: KEY }),
    ask => ask.send(400, { error: { message: `the header was authorization: Bearer ${KEY}` } }),
  ];
  const seen = new Set<unknown>();
  const fake = await serve(
    ask => {
      seen.add(ask.headers.authorization);
      (ways[ask.n - 1] ?? (() => ask.answer('{"says":"no"}')))(ask);
    },
    {
      onModels(response) {
        response.setHeader('content-type', 'application/json');
        response.end(JSON.stringify({ object: 'list', data: [{ id: 'm', root: `/weights/${KEY}` }] }));
      },
    },
  );
  const ran = await fw(
    `fw chain --agents ${agents} --no-decision --in-flight 1 --ledger led --endpoint ${fake.url}`,
    {
      cwd: at,
      env: { FW_API_KEY: KEY },
      stdin: ['a', 'b', 'c'].map(id => `{"id":"${id}","prompt":"?"}\n`).join(''),
    },
  );
  expect([...seen]).toEqual([`Bearer ${KEY}`]);
  const outcomes = callsOf(join(at, 'led')).map(({ outcome }) => outcome);
  expect(new Set(outcomes), ran.stderr).toEqual(
    // an id that is not that of the request, from a server that repeats it else, may be another call's
    new Set(['HTTP 500', 'HTTP 503', 'bad answer', 'answer', 'crossed', 'refused']),
  );
  const kept = everything(join(at, 'led'));
  expect(kept).toContain('/weights/***');
  for (const form of FORMS) {
    expect(kept).not.toContain(form);
    expect(ran.stderr + ran.stdout).not.toContain(form);
  }
});

test('an endpoint with a key in its URL is refused before there is a ledger', async () => {
  const at = folder();
  for (const url of [`http://user:${KEY}@127.0.0.1:9/v1`, `http://127.0.0.1:9/v1?api_key=${KEY}`]) {
    const ran = await fw(`fw chain --ledger led --endpoint '${url}'`, {
      cwd: at,
      stdin: '{"id":"a","prompt":"?"}\n',
    });
    expect(ran.code).toBe(64);
    expect(ran.stderr).not.toContain(KEY);
    expect(readdirSync(at).includes('led') ? everything(join(at, 'led')) : '').not.toContain(KEY);
  }
});
