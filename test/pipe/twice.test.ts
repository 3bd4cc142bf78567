/** Two Ctrl-C in a pipe: whatever was paid for goes through the stages that only pass it on. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { every } from '../all.ts';
import { folder, ROOT } from '../fw.ts';
import { makeAgents, ndjson } from '../ledger/reading.ts';
import { serve } from '../pool/serving.ts';

const CLI = join(ROOT, 'dist', 'bin', 'fw.js');
const ITEMS = 40;

/** Resolves when it has said so on stderr. */
async function said(child: ChildProcess, words: string): Promise<void> {
  let text = '';
  for (;;) {
    if (text.includes(words)) return;
    const [chunk] = (await once(child.stderr!, 'data')) as [Buffer];
    text += chunk.toString();
  }
}

test.each(every(2, [['fix-escapes', 'select'], ['validate']]))(
  'chain | %s: no item is lost',
  async (...stages) => {
    const at = folder();
    const agents = makeAgents(at);
    // the first agent is answered, the second never
    const fake = await serve(ask => {
      if (ask.body.includes('You are the first')) ask.answer('{"says":"yes"}');
    });
    const flags = ['--agents', agents, '--no-decision', '--endpoint', fake.url, '--ledger', 'led'];
    const chain = spawn(process.execPath, [CLI, 'chain', ...flags], { cwd: at });
    const all: ChildProcess[] = [chain];
    for (const stage of stages) {
      const stdin = all.at(-1)!.stdout!;
      const child = spawn(process.execPath, [CLI, stage], { cwd: at, stdio: ['pipe', 'pipe', 'pipe'] });
      stdin.pipe(child.stdin!);
      all.push(child);
    }
    const out: Buffer[] = [];
    all.at(-1)!.stdout!.on('data', chunk => out.push(chunk));
    const ends = all.map(child => once(child, 'close'));
    for (let n = 0; n < ITEMS; n++) chain.stdin.write(`{"id":"i${n}","prompt":"?"}\n`);
    await fake.reached(2 * ITEMS);
    // the stages that pass on are told first, as it may come
    const passing = all.slice(1).map(child => said(child, 'reading the rest of the input'));
    for (const child of all.slice(1)) child.kill('SIGINT');
    await Promise.all(passing);
    const again = all.slice(1).map(child => said(child, 'again: stop at once'));
    for (const child of all.slice(1)) child.kill('SIGINT');
    await Promise.all(again);
    const stopping = said(chain, 'no new items');
    chain.kill('SIGINT');
    await stopping;
    chain.kill('SIGINT');
    const codes = (await Promise.all(ends)).map(([code]) => code);
    expect(codes[0]).toBe(130);
    const lines = ndjson(Buffer.concat(out).toString());
    const items = lines.filter(({ id }) => id !== null);
    expect(items.map(({ id }) => id).sort()).toEqual(Array.from({ length: ITEMS }, (_, n) => `i${n}`).sort());
    for (const { steps } of items as { steps: { agent: string }[] }[]) expect(steps[0]?.agent).toBe('first');
    expect(lines.at(-1)).toMatchObject({ id: null, failure: { code: 'input-incomplete' } });
  },
);
