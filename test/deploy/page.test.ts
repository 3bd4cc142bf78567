/**
 * docs/deploy.md, "From nothing to a server with two workers": its lines as a reader types them into one terminal, with
 * ports that are free, a lease of two seconds, and on one machine what is for several.
 */
import { spawn } from 'node:child_process';
import { readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { freePort } from '../free-port.ts';
import { BASH, environment, folder, ROOT } from '../fw.ts';
import { simulated } from '../server/serving.ts';
import { expectAnswered, wholeWithRedis } from './processes.ts';

const page = readFileSync(join(ROOT, 'docs/deploy.md'), 'utf8');
const [, oneMachine = '', severalMachines = ''] =
  /^## From nothing to a server with two workers$(.*?)^### On several machines$(.*?)^### /ms.exec(page) ?? [];
const blocksOf = (part: string): string[] =>
  [...part.matchAll(/<!-- not run: test\/deploy\/page\.test\.ts .*?-->\n```sh\n(.*?)^```$/gms)].map(
    ([, block = '']) => block,
  );

interface Terminal {
  /** the folder in which it was typed */
  at: string;
  /** all that was printed */
  said: string;
}

/** Types blocks into one shell, each when what the one before it started listens. What they started lives until the test is over. */
async function typed(blocks: readonly string[], stands: Record<string, string>): Promise<Terminal> {
  const at = folder();
  for (const name of ['pipelines', 'fixtures', 'schemas']) symlinkSync(join(ROOT, name), join(at, name));
  const wanted = new RegExp(Object.keys(stands).join('|'), 'g');
  const script = blocks.flatMap(block => {
    const placed = block.replaceAll(wanted, word => stands[word] as string);
    const listening = placed.match(/^fw simulate.*&$|^redis-server.*&$|.*fw serve.*&$|^tls-port.*/gm) ?? [];
    const ports = listening.flatMap(line => /(?:--port |tls-port |--listen \S+:)(\d+)/.exec(line)?.[1] ?? []);
    return [
      placed,
      ...ports.map(port => `until (: < /dev/tcp/127.0.0.1/${port}) 2> no; do sleep 0.05; done`),
    ];
  });
  const lines = ['set -e', ...script, "echo 'that was all'", 'read -r'].join('\n');
  const child = spawn('bash', [...BASH, lines], { cwd: at, env: environment({}), detached: true });
  onTestFinished(() => {
    try {
      process.kill(-(child.pid as number), 'SIGKILL');
    } catch {
      // it has ended
    }
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', chunk => (said += chunk));
  let code: number | null = null;
  child.on('exit', ended => (code = ended ?? -1));
  while (!said.includes('that was all')) {
    if (code !== null) throw new Error(`expected the end of the page, found ${code}: ${said}`);
    await new Promise(resolve => setTimeout(resolve, 20));
  }
  return { at, said };
}

/** Ports of the page, and free ones. */
async function ports<const P extends string>(...wanted: P[]): Promise<Record<P, string>> {
  const pairs = wanted.map(async port => [port, `${await freePort()}`] as const);
  return Object.fromEntries(await Promise.all(pairs)) as Record<P, string>;
}

wholeWithRedis('one machine', async () => {
  const blocks = blocksOf(oneMachine);
  expect(blocks).toHaveLength(9);
  const stands = {
    ...(await ports('8001', '8002', '6390', '8080', '8090')),
    'fw serve --data serve': 'fw serve --data serve --lease 2s',
    '300ms': '50ms',
    'sleep 1': 'sleep 0.1',
    'applications-60.csv': 'applications-60.csv --limit 4',
  };
  const { at, said } = await typed(blocks, stands);
  expect(said).toMatch(/^2000$/m);
  expect(said).toMatch(/^\["\w+",\{"total":\d+,/m);
  expect(said).toMatch(/^fw_shard_lines\{state="running"\} \d+$/m);
  expect(readFileSync(join(at, 'output.jsonl'), 'utf8').trimEnd().split('\n')).toHaveLength(2000);
  expect(readFileSync(join(at, 'results.jsonl'), 'utf8').trimEnd().split('\n')).toHaveLength(4);
});

wholeWithRedis('several machines: TLS, a password, a key for each site', async () => {
  const blocks = blocksOf(severalMachines);
  expect(blocks).toHaveLength(4);
  const { url: vllm } = await simulated();
  const all = { ...(await ports('6379', '8080')), '8001': new URL(vllm).port };
  const stands = { ...all, head: 'localhost', '0.0.0.0': '127.0.0.1' };
  const { at, said } = await typed([...blocks, 'echo "KEY=$KEY"'], stands);
  const [, key = ''] = /^KEY=(.*)$/m.exec(said) ?? [];
  await expectAnswered(`http://127.0.0.1:${all['8080']}`, key, 300);
  const [, password = ''] = /:\/\/:(\w+)@/.exec(readFileSync(join(at, 'work.env'), 'utf8')) ?? [];
  expect(password).toMatch(/^[0-9a-f]{48}$/);
  expect(said).not.toContain(password);
});
