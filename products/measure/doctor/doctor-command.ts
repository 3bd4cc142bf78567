/**
 * doctor: examine endpoints before a run: are they there, what do they serve, do they do what they are asked to.
 *
 *   fw doctor --endpoint http://gpu1:8005/v1 --endpoint http://gpu2:8005/v1
 */

import { seconds } from '../../../engine/asking/endpoints/endpoint-words.ts';
import { readModelMap } from '../../../engine/asking/endpoints/model-names.ts';
import { systemClock, TIMING } from '../../../engine/asking/endpoints/pool-clock.ts';
import {
  type EndpointSetting,
  noneNamed,
  poolSettings,
  readPoolFile,
} from '../../../engine/asking/endpoints/settings.ts';
import { writePage } from '../../../engine/core/files/ndjson-out.ts';
import { usageError } from '../../../engine/core/item/failure.ts';
import { visible } from '../../../engine/core/json/visible.ts';
import { command } from '../../../engine/flow/command.ts';
import { durationOf } from '../../../engine/flow/options.ts';
import { POOL_OPTIONS } from '../../../engine/running/open-pool.ts';
import type { Finding, Mark } from './endpoint-facts.ts';
import { examine } from './examine.ts';
import { type Examined, judge, type Report } from './judge.ts';

const WIDEST = 120;
/** After this time the endpoints that are still waited for are named; ms. */
const SLOW_AFTER_MS = 4_000;
const MAX_NAMED = 5;

export default command({
  name: 'doctor',
  summary: 'Check endpoints: what they serve, how they really behave, what to change.',
  examples: [
    'fw doctor --endpoint http://gpu1:8005/v1 --endpoint http://gpu2:8005/v1',
    "fw doctor --pool pool.yaml --json | jq '.endpoints[] | {url, figures}'",
    'FW_API_KEY=… fw doctor --endpoint https://llm.example.org/v1 --model my-lora',
  ],
  options: {
    endpoint: POOL_OPTIONS.endpoint,
    pool: POOL_OPTIONS.pool,
    model: POOL_OPTIONS.model,
    'model-map': POOL_OPTIONS['model-map'],
    'api-key-env': POOL_OPTIONS['api-key-env'],
    timeout: {
      type: 'string',
      default: '60s',
      description: 'Time limit per endpoint; all are checked at once.',
    },
    json: { type: 'boolean', description: 'Write the report as JSON.' },
  },

  async run({ endpoint, pool, model, timeout, json, ...options }, positionals) {
    if (positionals.length > 0)
      throw usageError(`expected options only, found "${positionals[0]}": --endpoint URL`);
    const most = durationOf(timeout, '--timeout');
    const { 'api-key-env': apiKeyEnv, 'model-map': map } = options;
    const modelMap = map === undefined ? undefined : readModelMap(map);
    const settings = poolSettings(
      { endpoint, pool: pool === undefined ? undefined : readPoolFile(pool), model, apiKeyEnv },
      process.env,
    );
    if (settings.endpoints.length === 0) throw noneNamed();
    const { key, model: wanted } = settings;
    const examiner = { key, wanted, modelMap, most, clock: systemClock, timing: TIMING };
    const pending = new Set(settings.endpoints);
    const soon = setTimeout(
      () => process.stderr.write(`fw doctor: ${waitingFor([...pending], most)}\n`),
      SLOW_AFTER_MS,
    );
    const facts = await Promise.all(
      settings.endpoints.map(one => examine(one, examiner).finally(() => pending.delete(one))),
    );
    clearTimeout(soon);
    const report = judge(facts, process.env);
    const { stdout } = process;
    await writePage(
      json
        ? `${JSON.stringify(report, null, 2)}\n`
        : renderReport(report, {
            colour: stdout.isTTY && !process.env.NO_COLOR,
            width: Math.min(WIDEST, stdout.columns ?? WIDEST),
          }),
    );
    return report.exit;
  },
});

function waitingFor(pending: readonly EndpointSetting[], most: number): string {
  const named = pending.slice(0, MAX_NAMED).map(({ url }) => url);
  const others = pending.length > MAX_NAMED ? ` and ${pending.length - MAX_NAMED} more` : '';
  return `waiting for ${named.join(', ')}${others}, for ${seconds(most)} at most (--timeout)`;
}

const COLOURS: Record<Mark, string> = { ok: '32', note: '33', trouble: '31' };
const MARK_WIDTH = 9;

export interface Look {
  colour: boolean;
  /** columns */
  width: number;
}

export function renderReport({ endpoints, together }: Report, look: Look): string {
  const blocks = endpoints.map(endpoint => [headOf(endpoint), ...findingLines(endpoint.findings, look)]);
  if (together.length > 0) blocks.push(['together', ...findingLines(together, look)]);
  blocks.push([summary(endpoints, together)]);
  return `${blocks.map(lines => lines.join('\n')).join('\n\n')}\n`;
}

function headOf({ url, server, version, model, reachable }: Examined): string {
  const what = reachable
    ? [server === 'unknown' ? '' : server, version ?? '', model ? `· ${model}` : '']
    : [];
  return visible([url, ...what].filter(Boolean).join(' '));
}

function findingLines(findings: readonly Finding[], { colour, width }: Look): string[] {
  const names = Math.max(...findings.map(({ check }) => check.length)) + 2;
  const indent = 2 + MARK_WIDTH + names;
  return findings.flatMap(({ check, mark, found, expected, advice }) => {
    const told = wrapped(visible(found), width - indent);
    if (mark !== 'ok') told.push(...wrapped(`expected: ${visible(expected)}`, width - indent));
    if (advice !== undefined) told.push(...wrapped(`→ ${visible(advice)}`, width - indent));
    const padded = mark.padEnd(MARK_WIDTH);
    const marked = colour ? `\u001b[${COLOURS[mark]}m${padded}\u001b[0m` : padded;
    return told.map((line, at) =>
      at === 0 ? `  ${marked}${check.padEnd(names)}${line}` : `${' '.repeat(indent)}${line}`,
    );
  });
}

/** Lines of at most `most` characters where there is a space to break at. */
function wrapped(text: string, most: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > Math.max(30, most)) {
      lines.push(line);
      line = word;
    } else line = line === '' ? word : `${line} ${word}`;
  }
  return [...lines, line];
}

function summary(endpoints: readonly Examined[], between: readonly Finding[]): string {
  const all = [...endpoints.flatMap(({ findings }) => findings), ...between];
  const count = (mark: Mark) => all.filter(finding => finding.mark === mark).length;
  const several = (many: number, one: string) => `${many} ${one}${many === 1 ? '' : 's'}`;
  const usable = endpoints.filter(one => one.usable).length;
  return (
    `${usable} of ${several(endpoints.length, 'endpoint')} usable · ` +
    `${count('ok')} ok, ${several(count('note'), 'note')}, ${several(count('trouble'), 'trouble')}`
  );
}
