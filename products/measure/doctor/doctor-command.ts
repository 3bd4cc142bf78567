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
import { command } from '../../../engine/flow/command.ts';
import { durationOf } from '../../../engine/flow/options.ts';
import { POOL_OPTIONS } from '../../../engine/running/open-pool.ts';
import { renderReport } from './doctor-text.ts';
import { examine } from './examine.ts';
import { judge } from './judge.ts';

const WIDEST = 120;
/** After this time the endpoints that are still waited for are named; ms. */
const SLOW_AFTER_MS = 4_000;
const MAX_NAMED = 5;

export default command({
  name: 'doctor',
  summary: 'Examine endpoints: what they serve, what they really do, what to change.',
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
      description: 'How long the examination of an endpoint may take; all are examined at the same time.',
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
