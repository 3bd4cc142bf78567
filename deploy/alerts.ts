/**
 * What is to wake somebody: the rules of deploy/alerts.yaml, each with series of samples at which it fires and at which it
 * does not, in promtool's short form (`0+5x20` is 0, 5, 10, … twenty times, one a minute). The file is written by
 *   FW_UPDATE=1 npx vitest run test/deploy/watching.test.ts
 */
import { stringify } from 'yaml';

type Series = Record<string, string>;

export interface Alert {
  name: string;
  expr: string;
  /** how long it has to be true */
  for: string;
  severity: 'critical' | 'warning';
  summary: string;
  /** the summary as it is told at `fires` */
  says: string;
  /** what to look at first */
  description: string;
  /** without job and instance, which the test adds; looked at after `at` minutes */
  fires: Series;
  /** in another way */
  alsoFires?: Series;
  quiet: Series;
  at: number;
}

const BY = 'by (job, instance)';
/** share of failed items, from this number of items on: of three items one says nothing */
const SHARE = 0.05;
const LEAST = 20;
const failedShare = (metric: string): string =>
  `sum ${BY} (increase(${metric}{outcome="failed"}[15m])) / sum ${BY} (increase(${metric}[15m])) > ${SHARE}\n` +
  `  and sum ${BY} (increase(${metric}[15m])) >= ${LEAST}`;

export const ALERTS: readonly Alert[] = [
  {
    name: 'FwNoEndpoint',
    expr: `max ${BY} (fw_endpoint_up) == 0`,
    for: '2m',
    severity: 'critical',
    summary: 'No server answers {{ $labels.instance }}.',
    says: 'No server answers one:9400.',
    description:
      'fw doctor --endpoint URL says why. A run waits as long as its --wait says, then it ends with 69.',
    fires: { 'fw_endpoint_up{endpoint="a"}': '1x3 0x10', 'fw_endpoint_up{endpoint="b"}': '0x15' },
    quiet: { 'fw_endpoint_up{endpoint="a"}': '1x15', 'fw_endpoint_up{endpoint="b"}': '0x15' },
    at: 10,
  },
  {
    name: 'FwRunStandsStill',
    expr: `sum ${BY} (increase(fw_calls_total{outcome="answer"}[5m])) == 0\n  and ${onlyWith('fw_items_in_flight > 0')}`,
    for: '10m',
    severity: 'critical',
    summary: 'The run at {{ $labels.instance }} has work, and no answer came for a quarter of an hour.',
    says: 'The run at one:9400 has work, and no answer came for a quarter of an hour.',
    description: 'The last line of the run says what it waits for: the servers, its input, the disk.',
    fires: { 'fw_calls_total{endpoint="a",outcome="answer"}': '5+5x5 30x25', fw_items_in_flight: '4x30' },
    quiet: { 'fw_calls_total{endpoint="a",outcome="answer"}': '5+5x5 30x25', fw_items_in_flight: '4x6 0x24' },
    at: 25,
  },
  {
    name: 'FwBatchesStandStill',
    expr: `sum ${BY} (increase(fw_batch_items_total[5m])) == 0\n  and ${onlyWith(`sum ${BY} (fw_batches{state="in_progress"}) > 0`)}`,
    for: '10m',
    severity: 'critical',
    summary:
      '{{ $labels.instance }} has batches in progress, and no line came back for a quarter of an hour.',
    says: 'one:9400 has batches in progress, and no line came back for a quarter of an hour.',
    description:
      'Look at the endpoints and at fw_batches_paused; the log of fw serve says what it waits for.',
    fires: { 'fw_batch_items_total{outcome="completed"}': '7x30', 'fw_batches{state="in_progress"}': '1x30' },
    quiet: {
      'fw_batch_items_total{outcome="completed"}': '7+1x30',
      'fw_batches{state="in_progress"}': '1x30',
    },
    at: 25,
  },
  {
    name: 'FwItemsFail',
    expr: failedShare('fw_items_total'),
    for: '5m',
    severity: 'warning',
    summary: '{{ $value | humanizePercentage }} of the items of the run at {{ $labels.instance }} fail.',
    says: '10% of the items of the run at one:9400 fail.',
    description: 'fw_item_failures_total has the codes, docs/troubleshooting.md what they mean.',
    fires: { 'fw_items_total{outcome="clean"}': '0+9x30', 'fw_items_total{outcome="failed"}': '0+1x30' },
    quiet: { 'fw_items_total{outcome="clean"}': '0+99x30', 'fw_items_total{outcome="failed"}': '0+1x30' },
    at: 25,
  },
  {
    name: 'FwBatchLinesFail',
    expr: failedShare('fw_batch_items_total'),
    for: '5m',
    severity: 'warning',
    summary: '{{ $value | humanizePercentage }} of the lines of batches at {{ $labels.instance }} fail.',
    says: '10% of the lines of batches at one:9400 fail.',
    description: 'The error file of a batch has the code of each line.',
    fires: {
      'fw_batch_items_total{outcome="completed"}': '0+9x30',
      'fw_batch_items_total{outcome="failed"}': '0+1x30',
    },
    // too few to say anything
    quiet: {
      'fw_batch_items_total{outcome="completed"}': '0x30',
      'fw_batch_items_total{outcome="failed"}': '0+1x30',
    },
    at: 25,
  },
  {
    name: 'FwBatchDeadlineNear',
    expr: 'fw_batch_deadline_seconds < 1800',
    for: '1m',
    severity: 'warning',
    summary: 'A batch at {{ $labels.instance }} is not done, and has {{ $value | humanizeDuration }} left.',
    says: 'A batch at one:9400 is not done, and has 20m 0s left.',
    description: 'What is not done by then ends as batch_expired. More servers, or fewer batches beside it.',
    fires: { fw_batch_deadline_seconds: '2400-60x25' },
    quiet: { fw_batch_deadline_seconds: '86400-60x25' },
    at: 20,
  },
  {
    name: 'FwDeadlineOutOfReach',
    // results of workers come some hundred lines at a time
    expr: 'avg_over_time(fw_batch_left_seconds[15m]) > on (job, instance) fw_batch_deadline_seconds',
    for: '10m',
    severity: 'warning',
    summary:
      'At the present rate the batches at {{ $labels.instance }} take {{ $value | humanizeDuration }}, and the first deadline is before that.',
    says: 'At the present rate the batches at one:9400 take 4h 0m 0s, and the first deadline is before that.',
    description: 'More servers or workers, or a longer completion_window for the next ones.',
    fires: { fw_batch_left_seconds: '14400x30', fw_batch_deadline_seconds: '10800-60x30' },
    quiet: { fw_batch_left_seconds: '7200-60x30', fw_batch_deadline_seconds: '10800-60x30' },
    at: 25,
  },
  {
    name: 'FwNoWorker',
    expr: `sum ${BY} (fw_shards{state=~"planned|offered"}) > 0\n  and ${onlyWith('fw_workers == 0')}`,
    // a worker that is started now has a model to load
    for: '15m',
    severity: 'critical',
    summary: '{{ $value }} shards wait at {{ $labels.instance }}, and there is no worker.',
    says: '8 shards wait at one:9400, and there is no worker.',
    description:
      'Does anything start workers, and what do their logs say? A worker needs Redis, the server and its key.',
    fires: {
      'fw_shards{state="planned"}': '6x30',
      'fw_shards{state="offered"}': '2x30',
      'fw_shards{state="done"}': '3x30',
      fw_workers: '1x3 0x27',
    },
    quiet: {
      'fw_shards{state="planned"}': '0x30',
      'fw_shards{state="offered"}': '0x30',
      'fw_shards{state="done"}': '3x30',
      fw_workers: '0x30',
    },
    at: 25,
  },
  {
    name: 'FwWorkersStandStill',
    expr:
      `(fw_shard_last_result_seconds > 900 or ${onlyWithout('fw_workers', 'fw_shard_last_result_seconds')})\n` +
      `  and ${onlyWith(`sum ${BY} (fw_shards{state!="done"}) > 0`)} and ${onlyWith('fw_workers > 0')}`,
    for: '15m',
    severity: 'critical',
    summary: '{{ $labels.instance }} has shards and workers, and no result came for a quarter of an hour.',
    says: 'one:9400 has shards and workers, and no result came for a quarter of an hour.',
    description:
      'The page of the server shows what each worker has. Look at its log, its endpoint, and at fw_queue_up.',
    fires: {
      fw_shard_last_result_seconds: '0+60x40',
      'fw_shards{state="running"}': '2x40',
      fw_workers: '2x40',
    },
    // there was never a result
    alsoFires: { 'fw_shards{state="offered"}': '2x40', fw_workers: '2x40' },
    // it had nothing to do for long, and has now
    quiet: {
      fw_shard_last_result_seconds: '9000+60x34 0x6',
      'fw_shards{state="running"}': '0x25 2x15',
      fw_workers: '2x40',
    },
    at: 36,
  },
  {
    name: 'FwQueueAway',
    expr: 'fw_queue_up == 0',
    for: '2m',
    severity: 'critical',
    summary: '{{ $labels.instance }} does not reach Redis.',
    says: 'one:9400 does not reach Redis.',
    description:
      'Workers finish what they have, and get nothing new. Nothing is lost: it goes on when Redis is back, also without its data.',
    fires: { fw_queue_up: '1x3 0x10' },
    quiet: { fw_queue_up: '1x3 0x1 1x10' },
    at: 10,
  },
  {
    name: 'FwDiskLow',
    expr: 'fw_data_free_bytes < 5 * 1024 ^ 3',
    for: '5m',
    severity: 'warning',
    summary: 'The folder of {{ $labels.instance }} has {{ $value | humanize1024 }}B left.',
    says: 'The folder of one:9400 has 2GiB left.',
    description: 'On a full disk batches pause and uploads are refused. Delete files, or make room.',
    fires: { fw_data_free_bytes: '2147483648x15' },
    quiet: { fw_data_free_bytes: '21474836480x15' },
    at: 10,
  },
  {
    name: 'FwBatchesPaused',
    expr: 'fw_batches_paused > 0',
    for: '1m',
    severity: 'critical',
    summary:
      'Batches at {{ $labels.instance }} wait ({{ $value }}): the disk is full, or something else is broken.',
    says: 'Batches at one:9400 wait (1): the disk is full, or something else is broken.',
    description: 'The log of fw serve names it. They continue by themselves once there is room.',
    fires: { fw_batches_paused: '0x5 1x10' },
    quiet: { fw_batches_paused: '0x15' },
    at: 10,
  },
  {
    name: 'FwWebhookGivenUp',
    expr: `sum ${BY} (delta(fw_webhook_deliveries{outcome="given_up"}[1h])) > 0`,
    for: '0m',
    severity: 'warning',
    summary: '{{ $labels.instance }} gave up telling somebody of a batch.',
    says: 'one:9400 gave up telling somebody of a batch.',
    description: 'The receiver did not answer with 2xx for too long. The batch itself is as it should be.',
    fires: { 'fw_webhook_deliveries{outcome="given_up"}': '0x5 1x10' },
    quiet: { 'fw_webhook_deliveries{outcome="given_up"}': '3x15' },
    at: 12,
  },
];

function onlyWith(expr: string): string {
  return `on (job, instance) ${expr}`;
}

/** `expr` of those that do not have `metric` yet */
function onlyWithout(expr: string, metric: string): string {
  return `${expr} unless on (job, instance) ${metric}`;
}

const HEAD = `# Alerts for Prometheus, of fw serve and of runs with --metrics. Made of deploy/alerts.ts: change them there.
#   rule_files: [ /etc/prometheus/fw-alerts.yaml ]
`;

/** The file for Prometheus. */
export function rulesFile(): string {
  const rules = ALERTS.map(({ name, expr, for: held, severity, summary, description }) => ({
    alert: name,
    expr,
    for: held,
    labels: { severity },
    annotations: { summary, description },
  }));
  return HEAD + stringify({ groups: [{ name: 'fw', rules }] }, { lineWidth: 0 });
}

/** Cases for `promtool test rules`: each alert fires at its own series, and not at its quiet ones. */
export function ruleTests(rules: string, alerts: readonly Alert[] = ALERTS): string {
  const tests = alerts.flatMap(alert => [
    ...[alert.fires, alert.alsoFires ?? []].flat().map(series => caseOf(alert, series, [told(alert)])),
    caseOf(alert, alert.quiet, []),
  ]);
  return stringify({ rule_files: [rules], evaluation_interval: '1m', tests }, { lineWidth: 0 });
}

const WHERE = { job: 'fw', instance: 'one:9400' };
const told = ({ severity, says, description }: Alert) => ({
  exp_labels: { ...WHERE, severity },
  exp_annotations: { summary: says, description },
});

function caseOf({ name, at }: Alert, series: Series, expected: object[]) {
  const input_series = Object.entries(series).map(([key, values]) => {
    const [, metric, labels] = /^(\w+)(?:\{(.*)\})?$/.exec(key) as unknown as [string, string, string?];
    const all = [labels, ...Object.entries(WHERE).map(([label, value]) => `${label}="${value}"`)].filter(
      Boolean,
    );
    return { series: `${metric}{${all.join(',')}}`, values };
  });
  return {
    interval: '1m',
    input_series,
    alert_rule_test: [{ eval_time: `${at}m`, alertname: name, exp_alerts: expected }],
  };
}
