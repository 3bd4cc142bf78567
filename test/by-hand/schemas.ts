/**
 * Every schema of test/hostile/schemas.ts through every verb that takes one, each as a process of its own: the wall time,
 * the CPU time and the memory at its peak (GNU time). Prints the worst ten by each, and every process that ended
 * in a crash. A verb has 2 s of CPU and 300 MB. `schemas.sh` runs it: EVERY=10 takes each tenth schema, VERBS=chain,verify
 * some of the verbs.
 */
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HOSTILE, VALUES } from '../hostile/schemas.ts';

const MOST = { seconds: 2, mib: 300 };
const fw = join(process.cwd(), 'dist/bin/fw.js');
const at = mkdtempSync(join(tmpdir(), 'fw-schemas-'));
const every = Number(process.env.EVERY ?? 1);

const item = (value: unknown, index: number, answered: boolean): object => ({
  id: `i${index}`,
  prompt: '?',
  ordering: ['one'],
  steps: answered
    ? [
        {
          agent: 'one',
          output: value,
          rung: 'clean',
          saw: 'clean',
          repairs: [],
          calls: [],
          attempts: 1,
          usage: { prompt: 1, completion: 1 },
        },
      ]
    : [],
});
const lines = (values: readonly unknown[]): string =>
  values.map(value => `${JSON.stringify(value)}\n`).join('');

/** Answers each request with the next of the values. */
function serve(): Promise<string> {
  let turn = 0;
  const server = createServer((request, response) => {
    response.setHeader('content-type', 'application/json');
    if (request.method === 'GET') return response.end('{"object":"list","data":[{"id":"m"}]}');
    request.resume().on('end', () => {
      const content = JSON.stringify(VALUES[turn++ % VALUES.length]);
      const id = `chatcmpl-${request.headers['x-request-id']}`;
      response.end(
        JSON.stringify({
          id,
          model: 'm',
          choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
        }),
      );
    });
  });
  server.unref();
  return new Promise(resolve =>
    server.listen(0, '127.0.0.1', () =>
      resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`),
    ),
  );
}

const url = await serve();
const agents = ['--agents', 'agents'];
const asking = [...agents, '--endpoint', url, '--attempts', '1'];
/** By verb: its arguments and what it reads. */
const VERBS: Record<string, [args: string[], input: string]> = {
  validate: [['validate', '--schema', 's.json'], 'values'],
  'null-fix': [['null-fix', '--schema', 's.json'], 'values'],
  ingest: [['ingest', '--schema', 's.json', '--prompt', 'x', 'values.ndjson'], ''],
  'validate items': [['validate', ...agents], 'answered'],
  'null-fix items': [['null-fix', ...agents], 'answered'],
  'fix-escapes items': [['fix-escapes', ...agents], 'answered'],
  chain: [['chain', ...asking, '--no-decision'], 'asked'],
  'chain not guided': [['chain', ...asking, '--no-decision', '--guided=off'], 'asked'],
  'agent-step': [['agent-step', '--agent', 'one', ...asking], 'asked'],
  'synthesize-decision': [['synthesize-decision', ...asking], 'answered'],
  'legacy-convert': [['legacy-convert', ...agents], 'answered'],
  verify: [['verify', ...agents, '--no-decision'], 'answered'],
  merge: [['merge', ...agents, 'answered.ndjson', 'answered.ndjson'], ''],
  'chain with such columns': [
    ['chain', '--agents', 'columns', '--endpoint', url, '--attempts', '1', '--no-decision'],
    'inputs',
  ],
};
const chosen = process.env.VERBS?.split(',') ?? Object.keys(VERBS);

interface Ran {
  verb: string;
  name: string;
  code: number;
  wall: number;
  cpu: number;
  mib: number;
  said: string;
}

function run(verb: string, name: string): Promise<Ran> {
  const [args, input] = VERBS[verb] as [string[], string];
  const stdin = input === '' ? '' : readFileSync(join(at, `${input}.ndjson`), 'utf8');
  return new Promise(resolve => {
    const timed = ['-o', 'time', '-f', '%e %U %S %M', 'timeout', '60', process.execPath, fw, ...args];
    const child = spawn('time', timed, { cwd: at, stdio: ['pipe', 'ignore', 'pipe'] });
    const said: Buffer[] = [];
    child.stderr.on('data', bytes => said.push(bytes));
    child.stdin.on('error', () => {});
    child.stdin.end(stdin);
    child.on('close', code => {
      const last = readFileSync(join(at, 'time'), 'utf8').trim().split('\n').at(-1) as string;
      const [wall, user, system, kib] = last.split(' ').map(Number) as [number, number, number, number];
      const told = Buffer.concat(said).toString().split('\n').slice(0, 3).join(' / ').slice(0, 200);
      resolve({ verb, name, code: code ?? -1, wall, cpu: user + system, mib: kib / 1024, said: told });
    });
  });
}

/** Exit codes that say something; others (70, 124 of timeout, 134 out of memory, 139) are crashes. */
const SAID = new Set([0, 1, 64, 65]);

mkdirSync(join(at, 'agents'));
mkdirSync(join(at, 'columns'));
const persona = (role: string): string =>
  `role: ${role}\nshort: ${role}\ndisplay: The ${role}\npersona: You judge.\nschema: s.json\nsampling: { temperature: 0, max_tokens: 100 }\n`;
writeFileSync(join(at, 'agents/one.yaml'), `key: one\n${persona('agent')}`);
writeFileSync(join(at, 'agents/two.yaml'), `key: two\n${persona('synthesis')}`);
writeFileSync(join(at, 'columns/one.yaml'), `key: one\n${persona('agent')}`);
writeFileSync(join(at, 'columns/s.json'), '{"type":"object"}');
for (const name of ['agents', 'columns'])
  writeFileSync(join(at, name, 'orderings.yaml'), 'default:\n  - [agent]\n');
writeFileSync(join(at, 'values.ndjson'), lines(VALUES));
writeFileSync(join(at, 'answered.ndjson'), lines(VALUES.map((value, index) => item(value, index, true))));
writeFileSync(join(at, 'asked.ndjson'), lines(VALUES.map((value, index) => item(value, index, false))));
writeFileSync(
  join(at, 'inputs.ndjson'),
  lines(VALUES.map((input, index) => ({ ...item({}, index, false), input }))),
);

const all: Ran[] = [];
for (const [index, { name, schema }] of HOSTILE.entries()) {
  if (index % every !== 0) continue;
  const text = JSON.stringify(schema);
  writeFileSync(join(at, 's.json'), text);
  writeFileSync(join(at, 'agents/s.json'), text);
  writeFileSync(join(at, 'columns/folder.yaml'), `expects: ${text}\n`);
  for (const verb of chosen) all.push(await run(verb, name));
}
rmSync(at, { recursive: true, force: true });

const row = ({ verb, name, code, wall, cpu, mib, said }: Ran, more = ''): void =>
  console.log(
    `${cpu.toFixed(2)} s CPU  ${wall.toFixed(2)} s  ${mib.toFixed(0)} MiB  exit ${code}  ${verb}: ${name}${more && `  ${said}`}`,
  );
const worst = (of: (ran: Ran) => number): Ran[] => all.toSorted((a, b) => of(b) - of(a)).slice(0, 10);
const crashed = all.filter(({ code }) => !SAID.has(code));
const beyond = all.filter(({ cpu, mib }) => cpu > MOST.seconds || mib > MOST.mib);
console.log(
  `${all.length} processes, ${chosen.length} verbs; crashed ${crashed.length}, beyond ${MOST.seconds} s or ${MOST.mib} MiB ${beyond.length}`,
);
for (const verb of chosen) {
  const codes = all.filter(ran => ran.verb === verb).map(({ code }) => code);
  console.log(
    `${verb}: ${[...new Set(codes)]
      .toSorted()
      .map(code => `${codes.filter(one => one === code).length} with ${code}`)
      .join(', ')}`,
  );
}
console.log('\nworst by CPU:');
for (const ran of worst(({ cpu }) => cpu)) row(ran);
console.log('\nworst by memory:');
for (const ran of worst(({ mib }) => mib)) row(ran);
console.log('\ncrashed:');
for (const ran of crashed.slice(0, 20)) row(ran, 'and what it said');
