/** What a ledger says of calls: each by its key, whatever else its files hold, while they grow, and after they shrank. */
import { appendFileSync, copyFileSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { filesOf } from '../../engine/asking/ledger/scan-files.ts';
import { CallIndex, type Entry } from '../../products/view/call-index.ts';
import { openLedgerFacts } from '../../products/view/ledger-facts.ts';
import { runs } from '../all.ts';
import { folder } from '../fw.ts';
import { holds } from '../integrity/property.ts';
import { sealed } from '../ledger/reading.ts';
import { anyText, appended, keyFor, opened, recordOf, written } from '../ledger/records.ts';

const fileOf = (ledger: string): string => filesOf(ledger)[0] as string;

describe('the facts of a call', () => {
  test('are those of its line, and its request is what went over the wire', async () => {
    const at = folder();
    const ledger = opened(at);
    const answer = recordOf({ says: 'hello', ms: 1_234, time: Date.UTC(2026, 1, 2, 3, 4, 5) });
    await appended(ledger, { ...recordOf({ says: 'hello' }), outcome: 'HTTP 503', ms: 3, detail: 'busy' });
    await appended(ledger, answer);
    await ledger.close();
    const facts = openLedgerFacts(at);
    expect(facts.brief(answer.key)).toBe(null);
    await facts.read();
    expect(facts.state()).toMatchObject({ calls: 2, done: true, notes: [] });
    expect(facts.brief(answer.key)).toEqual({
      seconds: 1.234,
      endpoint: 'http://gpu1:8005/v1',
      ended: Date.UTC(2026, 1, 2, 3, 4, 5) / 1000,
    });
    const tries = facts.triesOf(answer.key);
    expect(tries.map(({ outcome, status, detail }) => [outcome, status, detail])).toEqual([
      ['HTTP 503', 503, 'busy'],
      ['answer', 200, null],
    ]);
    expect(tries[1]).toMatchObject({ seconds: 1.234, model: 'm', finish: 'stop', path: '/chat/completions' });
    expect(tries[1]?.request).toBe(answer.body.toString());
    expect(facts.triesOf(keyFor('other'))).toEqual([]);
    expect(facts.brief('no key')).toBe(null);
    facts.close();
  });

  test('of raw calls have the whole body, and no password of an endpoint', async () => {
    const at = folder();
    const ledger = opened(at);
    const body = Buffer.from('{"input":["a"],"x":1.0}');
    const more = { raw: true as const, body, head: '', tail: '', path: '/v1/embeddings' };
    await appended(ledger, { ...recordOf(), ...more, endpoint: 'http://me:secret@gpu/v1' });
    await ledger.close();
    const facts = openLedgerFacts(at);
    await facts.read();
    const [one] = facts.triesOf(recordOf().key);
    expect(one).toMatchObject({ isRaw: true, request: body.toString(), endpoint: 'http://gpu/v1' });
    expect(facts.brief(recordOf().key)?.endpoint).toBe('http://gpu/v1');
  });

  test('are there for every text', async () => {
    const texts = fc.sample(anyText, { numRuns: 40, seed: 7 });
    const says = [...new Set(texts)];
    const at = folder();
    await written(at, says);
    const facts = openLedgerFacts(at);
    await facts.read();
    for (const text of says) {
      const { body } = recordOf({ says: text });
      expect(facts.triesOf(keyFor(text))[0]?.request, JSON.stringify(text)).toBe(body.toString());
    }
  });
});

describe('files that are not as they should be', () => {
  test('grow: what is new is read, a torn line once it is whole', async () => {
    const at = folder();
    await written(at, ['a', 'b']);
    const path = fileOf(at);
    const all = readFileSync(path);
    const cut = all.indexOf(keyFor('b')) + 100;
    writeFileSync(path, all.subarray(0, cut));
    const facts = openLedgerFacts(at);
    await facts.read();
    expect([facts.brief(keyFor('a')) !== null, facts.brief(keyFor('b'))]).toEqual([true, null]);
    appendFileSync(path, all.subarray(cut));
    await facts.read();
    expect(facts.triesOf(keyFor('b'))[0]?.request).toBe(recordOf({ says: 'b' }).body.toString());
    // and a file that was not there before
    await written(at, ['c']);
    await facts.read();
    expect(facts.triesOf(keyFor('c'))).toHaveLength(1);
    expect(facts.triesOf(keyFor('a'))).toHaveLength(1);
    expect(facts.state()).toMatchObject({ calls: 3, notes: [] });
  });

  test('are damaged, or no ledger: it is said, and the rest is there', async () => {
    const at = folder();
    await written(at, ['a', 'b', 'c']);
    const path = fileOf(at);
    const bytes = readFileSync(path);
    bytes[bytes.indexOf(keyFor('b')) + 60] = 0;
    writeFileSync(path, bytes);
    writeFileSync(join(at, 'other.ndjson'), 'no ledger\n');
    const facts = openLedgerFacts(at);
    await facts.read();
    expect(facts.triesOf(keyFor('a'))).toHaveLength(1);
    expect(facts.triesOf(keyFor('b'))).toEqual([]);
    expect(facts.triesOf(keyFor('c'))).toHaveLength(1);
    expect(facts.state().notes.join('\n')).toMatch(/damage.*other\.ndjson/s);
  });

  test('shrink, or vanish: nothing is known any more, and nothing else happens', async () => {
    const at = folder();
    await written(at, ['a', 'b']);
    const facts = openLedgerFacts(at);
    await facts.read();
    truncateSync(fileOf(at), 40);
    expect(facts.triesOf(keyFor('b'))).toEqual([]);
    expect(facts.brief(keyFor('b'))?.seconds).toBe(0.012); // it is in memory
    await facts.read();
    const gone = folder();
    copyFileSync(fileOf(at), join(gone, 'x.ndjson'));
    expect(() => openLedgerFacts(join(gone, 'nothing'))).toThrow(/expected a ledger/);
  });

  test('hold sealed lines that are no calls, and calls that lie about themselves', async () => {
    const at = folder();
    await written(at, ['a']);
    const lies = [
      '{"key":"short"}',
      `{"key":"${keyFor('x')}","outcome":"answer","time":1}`,
      `{"key":"${keyFor('y')}","outcome":"answer","time":"2026-01-01T00:00:00.000Z","endpoint":"e","model":"m","item":"i","agent":"a","round":0,"attempt":1,"ms":-5,"finish":"stop","usage":{"prompt":1,"completion":1},"answer":"x","request":{"path":"/p","head":"0000000000000000","tail":"0000000000000000","messages":[]}}`,
      '{"key":"</script><b>","outcome":"\\u0000","ms":1e999}',
    ];
    for (const lie of lies) appendFileSync(fileOf(at), `${sealed(lie)}\n`);
    const facts = openLedgerFacts(at);
    await facts.read();
    expect(facts.triesOf(keyFor('x'))).toEqual([]);
    expect(facts.triesOf(keyFor('y'))[0]).toMatchObject({ request: null, endpoint: 'e' });
    for (const key of ['short', '', '</script><b>', '\u0000']) expect(facts.triesOf(key)).toEqual([]);
  });
});

describe('the index', () => {
  const entry = (place: number): Entry => ({ place, ms: place % 7, ended: 5, note: 3, isAnswer: true });
  const hex = fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: 12, maxLength: 12 });

  test('has what was put in, in any order of putting and asking', () => {
    holds(fc.array(fc.tuple(hex, fc.boolean()), { maxLength: 60 }), steps => {
      const index = new CallIndex();
      const known = new Map<string, Entry[]>();
      for (const [at, [name, asks]] of steps.entries()) {
        const key = name.slice(0, 11) + name.slice(11).replace(/[^0]/, '1'); // keys that nearly agree
        const one = { ...entry(at * 1e9), isAnswer: asks };
        index.add(key, one);
        known.set(key, [...(known.get(key) ?? []), one]);
        if (asks) expect(index.find(key)).toEqual(known.get(key));
      }
      for (const [key, entries] of known) expect(index.find(key)).toEqual(entries);
      expect(index.size).toBe(steps.length);
    });
  });

  test('takes 20 bytes a call, of a million and more too', () => {
    const count = runs(1_200_000, 5_000_000, 'CALLS');
    const index = new CallIndex();
    const key = (at: number): string => ((at * 2_654_435_761) % 2 ** 48).toString(16).padStart(12, '0');
    for (let at = 0; at < count; at++) {
      index.add(key(at), { place: at * 1_000, ms: at, ended: at, note: at % 200, isAnswer: at % 2 === 0 });
      if (at % 100_003 === 0) index.find(key(at)); // somebody looks while it is read
    }
    for (let at = 0; at < count; at += 9_973)
      expect(index.find(key(at))).toContainEqual({
        ...{ place: at * 1_000, ms: at, ended: at, note: at % 200, isAnswer: at % 2 === 0 },
      });
    index.find(key(0));
    expect(index.bytes / count).toBeLessThan(20.5);
  });
});
