/**
 * The header of a stage shows a real command: a line ` *   $ command`, and under it what it prints. Both are run here,
 * in the root of the project, with a simulated endpoint in $FW_ENDPOINT.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Simulator, startSimulator } from '../products/simulator/simulator.ts';
import { stages } from '../stages/index.ts';
import { ROOT } from './fw.ts';
import { fw } from './here.ts';

let simulator: Simulator;
beforeAll(async () => {
  simulator = await startSimulator({ port: 0, seed: 7 });
});
afterAll(() => simulator.close());

const COMMAND = ' *   $ ';
const PRINTED = ' *   ';

function exampleOf(name: string): { command: string; printed: string } | null {
  const lines = readFileSync(join(ROOT, 'stages', `${name}.ts`), 'utf8').split('\n');
  const at = lines.findIndex(line => line.startsWith(COMMAND));
  if (at < 0) return null;
  let end = at + 1;
  while (lines[end]?.startsWith(PRINTED)) end += 1;
  const printed = lines.slice(at + 1, end).map(line => `${line.slice(PRINTED.length)}\n`);
  return { command: (lines[at] as string).slice(COMMAND.length), printed: printed.join('') };
}

// an alias has no example of its own
test.each(Object.keys(stages).filter(name => name !== 'legacy'))('the header of %s', async name => {
  const example = exampleOf(name);
  expect(example, `stages/${name}.ts: expected a line '${COMMAND}fw …'`).not.toBeNull();
  const ran = await fw(example?.command as string, { env: { FW_ENDPOINT: simulator.url } });
  expect(ran.stdout, ran.stderr).toBe(example?.printed);
});
