/**
 * A batch file of many lines of 3 KB in the worst order, killed three times and gone on: each custom_id once, each with the
 * answer to its own request, in the order of the input, and byte for byte what an undisturbed run writes. `make large-batch`
 * runs it with 1,000,000 lines (3 GB, and as much again on disk for the ledger).
 */
import { spawn } from 'node:child_process';
import { createHash, hash } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream, createWriteStream, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { expect, onTestFinished } from 'vitest';
import { slow } from '../all.ts';
import { binFolder, folder } from '../fw.ts';

const LINES = Number(process.env.LINES ?? 20_000);
/** lines that begin alike: as many as there are questions about a document */
const QUESTIONS = 8;
const LIMIT = 256;
const WORDS =
  'the of applicant income loan risk report year quarter total assets cash flow debt ratio bank'.split(' ');

const documents = Math.ceil(LINES / QUESTIONS);
const said = (n: number): string => {
  const document = n % documents;
  let text = `Document ${document}.`;
  for (let word = document; text.length < 2_700; ) {
    word = (Math.imul(word, 1_664_525) + 1_013_904_223) >>> 0;
    text += ` ${WORDS[word % WORDS.length]}`;
  }
  return `${text}\nQuestion ${Math.floor(n / documents)}: what of it?`;
};
const bodyOf = (n: number): string =>
  JSON.stringify({
    model: 'm',
    messages: [{ role: 'user', content: said(n) }],
    max_tokens: 64,
    temperature: 0,
  });
const answerTo = (body: string | Buffer): string => hash('sha1', body, 'hex').slice(0, 12);

/** Lines of the first question, of all documents, then of the second, and so on. */
async function writeInput(path: string): Promise<void> {
  const file = createWriteStream(path);
  let block = '';
  for (let n = 0; n < LINES; n++) {
    block += `{"custom_id":"r${n}","method":"POST","url":"/v1/chat/completions","body":${bodyOf(n)}}\n`;
    if (block.length < 1 << 20 && n < LINES - 1) continue;
    if (!file.write(block)) await once(file, 'drain');
    block = '';
  }
  file.end();
  await once(file, 'finish');
}

/** A server whose answers are of their requests; `seen` is called before the answer of each. */
async function serving(seen: (nth: number) => void): Promise<{ url: string; requests(): number }> {
  let requests = 0;
  const server = createServer((request, response) => {
    if (request.method === 'GET') {
      response.end(
        request.url === '/v1/models' ? '{"object":"list","data":[{"id":"m","object":"model"}]}' : '',
      );
      return;
    }
    const chunks: Buffer[] = [];
    request.on('data', chunk => chunks.push(chunk));
    request.on('end', () => {
      seen(++requests);
      const content = answerTo(Buffer.concat(chunks));
      response.end(
        `{"object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"${content}"},"finish_reason":"stop"}],"usage":{"prompt_tokens":700,"completion_tokens":5,"total_tokens":705}}`,
      );
    });
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, requests: () => requests };
}

async function hashOfFile(path: string): Promise<string> {
  const sum = createHash('sha256');
  for await (const chunk of createReadStream(path)) sum.update(chunk);
  return sum.digest('hex');
}

/** Each line is the next one, and has the answer to its own request. */
async function checkOutput(path: string): Promise<void> {
  let n = 0;
  for await (const line of createInterface(createReadStream(path))) {
    const { custom_id, response } = JSON.parse(line);
    const expected = [`r${n}`, answerTo(bodyOf(n))];
    const found = [custom_id, response?.body.choices[0].message.content];
    if (found.join() !== expected.join()) expect(found).toEqual(expected);
    n += 1;
  }
  expect(n).toBe(LINES);
}

slow(
  'killed three times and gone on: each custom_id once, in order, byte for byte as undisturbed',
  async () => {
    const at = folder();
    const begun = performance.now();
    const say = (words: string): void =>
      void process.stderr.write(`${words}, after ${((performance.now() - begun) / 1000).toFixed(0)} s\n`);
    await writeInput(join(at, 'input.jsonl'));
    say(`${LINES} lines are written`);
    let killAt: number[] = [];
    let kill: () => void = () => {};
    const { url, requests } = await serving(nth => {
      if (nth === killAt[0]) {
        killAt.shift();
        kill();
      }
    });
    const run = async (output: string): Promise<number | null> => {
      const flags = ['batch', '-i', 'input.jsonl', '-o', output, '--endpoint', url];
      const child = spawn(join(binFolder, 'fw'), [...flags, '--endpoint-limit', `${LIMIT}`], {
        cwd: at,
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      kill = () => void child.kill('SIGKILL');
      let words = '';
      let memory = '';
      child.stderr.on('data', chunk => {
        words = (words + chunk).slice(-2_000);
        memory = memoryOf(child.pid) ?? memory;
      });
      const [code] = await once(child, 'close');
      say(`${output}: code ${code}, at most ${memory}; ${words.trimEnd().split('\n').at(-1)?.slice(0, 160)}`);
      return code;
    };
    expect(await run('undisturbed.jsonl')).toBe(0);
    expect(requests()).toBe(LINES);
    await checkOutput(join(at, 'undisturbed.jsonl'));
    const whole = await hashOfFile(join(at, 'undisturbed.jsonl'));
    rmSync(join(at, 'ledger'), { recursive: true });
    rmSync(join(at, 'undisturbed.jsonl'));
    killAt = [1, 2, 3].map(quarter => LINES + Math.floor((LINES * quarter) / 4));
    for (let times = 0; times < 3; times++) expect(await run('output.jsonl')).toBe(null);
    expect(await run('output.jsonl')).toBe(0);
    expect(requests()).toBeLessThanOrEqual(2 * LINES + 3 * 2 * LIMIT);
    say(`${requests() - 2 * LINES} requests were made twice`);
    expect(await hashOfFile(join(at, 'output.jsonl'))).toBe(whole);
    expect(readdirSync(at).toSorted()).toEqual(['input.jsonl', 'ledger', 'output.jsonl']);
  },
  Math.max(600_000, LINES * 5),
);

/** The most that a process has had, as the system says it. */
function memoryOf(pid: number | undefined): string | undefined {
  try {
    return /VmHWM:\s*(\d+ kB)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  } catch {
    return undefined;
  }
}
