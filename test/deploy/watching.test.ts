/** deploy/alerts.yaml and deploy/grafana/fw.json: of metrics that there are, and understood by promtool. */
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { DIALECTS } from '../../engine/core/item/dialects.ts';
import { startSimulator } from '../../products/simulator/simulator.ts';
import { binFolder, environment, folder, ROOT } from '../fw.ts';
import { begin, linesOf, reached } from '../server/batching.ts';
import { configured } from '../server/reloading.ts';
import { served } from '../server/serving.ts';

const RULES = join(ROOT, 'deploy', 'alerts.yaml');
const RULE_TESTS = join(ROOT, 'deploy', 'alerts.test.yaml');
const CSV = join(ROOT, 'fixtures', 'applications-60.csv');

interface Panel {
  id: number;
  type: string;
  title: string;
  gridPos: { x: number; y: number; w: number; h: number };
  fieldConfig?: { defaults: { unit: string } };
  targets?: { refId: string; expr: string }[];
}
const { panels }: { panels: Panel[] } = JSON.parse(
  readFileSync(join(ROOT, 'deploy', 'grafana', 'fw.json'), 'utf8'),
);
const expressions = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
const ALERTS: { alert: string; expr: string }[] = parse(readFileSync(RULES, 'utf8')).groups[0].rules;

test('the metrics that they name are on the page of a run or of a server, with the labels that they ask for, and all are used', async () => {
  const page = [
    ...[await pageOfRun(), await pageOfServer(), await pageOfCoordinator(), await pageOfConfigured()],
  ].join('');
  const asked = [...expressions, ...ALERTS.map(({ expr }) => expr)].join('\n');
  const names = new Set(asked.match(/\b(?:fw|process|nodejs)_[a-z0-9_]+/g));
  expect(names.size).toBeGreaterThan(25);
  const known = [...page.matchAll(/^# TYPE (\S+) (\S+)$/gm)].flatMap(([, name, type]) =>
    type === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
  );
  expect([...names].filter(name => !known.includes(name))).toEqual([]);
  const matchers = [...asked.matchAll(/(fw_\w+)\{(\w+="\w+")\}/g)];
  expect(matchers.length).toBeGreaterThan(3);
  for (const [, name, label] of matchers) expect(page).toMatch(new RegExp(`^${name}\\{[^}]*${label}`, 'm'));
  for (const [, by = '', name] of asked.matchAll(/sum by \(([^)]*)\) \((?:rate\()?(fw_\w+)/g)) {
    const own = by.split(', ').filter(label => !['job', 'instance', 'le'].includes(label));
    const sample = new RegExp(`^${name}\\{([^}]*)\\}`, 'm').exec(page)?.[1];
    // codes of failures have samples only where something failed
    if (sample !== undefined) for (const label of own) expect(sample, name).toContain(`${label}="`);
  }

  // what others tell already is left out, and what is but an alert
  const shown = expressions.join('\n');
  const all = new Set([...page.matchAll(/^# TYPE (\S+) /gm)].map(([, name = '']) => name));
  expect([...all].filter(name => name.startsWith('fw_') && !shown.includes(name)).sort()).toEqual([
    'fw_config_ok',
    'fw_http_request_seconds',
    'fw_items_expected',
    'fw_items_read_total',
    'fw_replayed_calls_total',
    'fw_retries_total',
    'fw_standby',
  ]);
});

/** While it waits for a server that does not answer. */
async function pageOfRun(): Promise<string> {
  const slow = await startSimulator({ port: 0, latency: '600s' });
  onTestFinished(() => slow.close());
  const args = [
    'run',
    `${ROOT}/pipelines/fairwatch/batch.yaml`,
    CSV,
    '--metrics',
    '0',
    '--endpoint',
    slow.url,
  ];
  const run = spawn(join(binFolder, 'fw'), args, {
    cwd: folder(),
    env: environment({}),
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const url = await new Promise<string>((resolve, reject) => {
    let said = '';
    run.stderr.on('data', chunk => {
      said += chunk;
      const found = /metrics at (http:\S+)/.exec(said)?.[1];
      if (found) resolve(found);
    });
    run.on('close', () => reject(new Error(said)));
  });
  try {
    let page = '';
    // its endpoints are there once the first call is out
    while (!/^fw_endpoint_up\{/m.test(page)) page = await (await fetch(url)).text();
    return page;
  } finally {
    run.kill('SIGKILL');
    await slow.close();
  }
}

async function pageOfServer(): Promise<string> {
  const server = await served();
  const client = server.client();
  const { id } = await begin(client, linesOf(1));
  await reached(client, id);
  const page = await (await fetch(`${server.url}/metrics`)).text();
  await server.stop();
  return page;
}

/** Whose settings are read again where they change. */
async function pageOfConfigured(): Promise<string> {
  const server = await configured('pool: { endpoints: ["http://127.0.0.1:1/v1"] }\n');
  return (await fetch(`${server.url}/metrics`)).text();
}

/** That gives its batches to workers: there are none. */
async function pageOfCoordinator(): Promise<string> {
  const queue = { url: 'redis://127.0.0.1:1', prefix: 'fw', lease: 60_000 }; // it is away
  const server = await served({ endpoints: [], settings: { queue } });
  return (await fetch(`${server.url}/metrics`)).text();
}

test('docs/deploy.md has a row for each alert', () => {
  const rows = readFileSync(join(ROOT, 'docs', 'deploy.md'), 'utf8').match(/^\| `Fw.*$/gm) ?? [];
  const named = rows.flatMap(row => row.match(/\bFw\w+/g) ?? []);
  expect(named.sort()).toEqual(ALERTS.map(({ alert }) => alert).sort());
});

test('the alert of live calls looks at each path that clients may ask, and at no other', () => {
  const { expr = '' } = ALERTS.find(({ alert }) => alert === 'FwLiveCallsFail') ?? {};
  const routes = [...expr.matchAll(/route=~"([^"]+)"/g)].map(([, one]) => one as string);
  expect([routes.length, new Set(routes).size]).toEqual([3, 1]);
  const whole = new RegExp(`^(?:${routes[0]})$`);
  expect([...DIALECTS.keys()].filter(path => !whole.test(path))).toEqual([]);
  for (const path of ['/v1/files', '/v1/batches', '/metrics', '/v1/models']) expect(path).not.toMatch(whole);
});

describe('the dashboard', () => {
  test('has panels with ids of their own, that do not lie on each other', () => {
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    const taken = new Set<string>();
    for (const { title, gridPos } of panels) {
      expect(gridPos.x + gridPos.w, title).toBeLessThanOrEqual(24);
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          expect(taken.has(`${x} ${y}`), title).toBe(false);
          taken.add(`${x} ${y}`);
        }
      }
    }
  });

  test('each panel has a unit, and asks only for the chosen jobs', () => {
    for (const { title, type, fieldConfig, targets = [] } of panels) {
      if (type === 'row') continue;
      expect(fieldConfig?.defaults.unit, title).toMatch(/^\w+$/);
      expect(new Set(targets.map(({ refId }) => refId)).size, title).toBe(targets.length);
      for (const { expr } of targets) expect(expr).toContain('{job=~"$job", instance=~"$instance"}');
    }
  });
});

const promtool = (...args: string[]) => spawnSync('promtool', args, { encoding: 'utf8', cwd: ROOT });
const isThere = promtool('--version').error === undefined;
if (!isThere)
  console.log('promtool is not there: the rules are checked by test/suites/run.sh deploy, which gets it');

describe.runIf(isThere)('promtool', () => {
  test('understands the rules, and the expressions of the dashboard', () => {
    const at = join(folder(), 'dashboard.yaml');
    const rules = expressions.map((expr, at) => ({ record: `panel:${at}`, expr: filledIn(expr) }));
    writeFileSync(at, stringify({ groups: [{ name: 'dashboard', rules }] }));
    const ran = promtool('check', 'rules', RULES, at);
    expect(ran.status, ran.stdout + ran.stderr).toBe(0);
    expect(ran.stdout).toContain(`${ALERTS.length} rules found`);
    expect(ran.stdout).toContain(`${expressions.length} rules found`);
  });

  test('each alert fires where it should, and not where it should not', () => {
    const { tests } = parse(readFileSync(RULE_TESTS, 'utf8'));
    expect(tests.map(({ name }: { name: string }) => name)).toEqual(ALERTS.map(({ alert }) => alert));
    const ran = promtool('test', 'rules', RULE_TESTS);
    expect(ran.status, ran.stdout + ran.stderr).toBe(0);
  });

  test('and the cases can fail: with the series changed round they do', () => {
    const at = join(folder(), 'alerts.test.yaml');
    const { tests, ...rest } = parse(readFileSync(RULE_TESTS, 'utf8'));
    for (const { input_series, ...one } of tests) {
      const round = input_series.map(({ series, values }: { series: string; values: string }) => ({
        series: series.replace(/"(?:one|two):/, label => (label === '"one:' ? '"two:' : '"one:')),
        values,
      }));
      const swapped = { ...rest, rule_files: [RULES], tests: [{ ...one, input_series: round }] };
      writeFileSync(at, stringify(swapped));
      expect(promtool('test', 'rules', at).status, one.name).toBe(1);
    }
  });
});

const filledIn = (expr: string): string =>
  expr.replaceAll('$__rate_interval', '5m').replaceAll('$job', 'fw').replaceAll('$instance', '.*');
