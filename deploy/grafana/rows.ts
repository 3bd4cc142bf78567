/** What the dashboard shows: its rows, their panels and the expressions in them. */

/** An expression, and how its line is called: `$where` stands for the chosen jobs and instances. */
type Query = readonly [expr: string, legend: string];

export interface Panel {
  title: string;
  /** what it shows, and what to make of it */
  about: string;
  unit: string;
  queries: readonly Query[];
  kind?: 'timeseries' | 'stat';
}

interface Row {
  title: string;
  panels: readonly Panel[];
}

const perSecond = (metric: string, by: string, labels = '$where'): string =>
  `sum by (${by}) (rate(${metric}{${labels}}[$__rate_interval]))`;
const quantiles = (metric: string, by = ''): Query[] =>
  [0.5, 0.95].map(quantile => [
    `histogram_quantile(${quantile}, sum by (le${by && `, ${by}`}) (rate(${metric}_bucket{$where}[$__rate_interval])))`,
    `p${quantile * 100}${by && ` {{${by}}}`}`,
  ]);

export const ROWS: readonly Row[] = [
  {
    title: 'Runs',
    panels: [
      {
        title: 'Done',
        about: 'Share of the calls that the items need, as the bar of the run shows it.',
        unit: 'percentunit',
        queries: [['fw_progress_ratio{$where}', '{{instance}}']],
        kind: 'stat',
      },
      {
        title: 'Work left',
        about: 'Time for the calls of all items known so far, at the rate of the last minutes.',
        unit: 's',
        queries: [['fw_queued_work_seconds{$where}', '{{instance}}']],
        kind: 'stat',
      },
      {
        title: 'Items in the run',
        about: 'Items read and not done.',
        unit: 'short',
        queries: [['fw_items_in_flight{$where}', '{{instance}}']],
        kind: 'stat',
      },
      {
        title: 'Items by rung',
        about: 'Items written: clean is as the model said it, defaulted and failed are not the model.',
        unit: 'ops',
        queries: [[perSecond('fw_items_total', 'outcome'), '{{outcome}}']],
      },
      {
        title: 'Failed items by code',
        about: 'docs/troubleshooting.md says what the codes mean.',
        unit: 'ops',
        queries: [[perSecond('fw_item_failures_total', 'code'), '{{code}}']],
      },
      {
        title: 'Calls given up',
        about: 'Calls that no endpoint answered within their tries.',
        unit: 'ops',
        queries: [[perSecond('fw_call_failures_total', 'code'), '{{code}}']],
      },
    ],
  },
  {
    title: 'Endpoints',
    panels: [
      {
        title: 'Up',
        about: '0: it rests after failures, or refuses connections.',
        unit: 'bool',
        queries: [['fw_endpoint_up{$where}', '{{endpoint}}']],
        kind: 'stat',
      },
      {
        title: 'Calls in flight, and their limit',
        about: 'The limit is learned from the answers, unless it was set.',
        unit: 'short',
        queries: [
          ['fw_calls_in_flight{$where}', '{{endpoint}}'],
          ['fw_calls_limit{$where}', 'limit {{endpoint}}'],
        ],
      },
      {
        title: 'Calls that wait for a place',
        about: 'Many: more servers would help. None: the servers have room.',
        unit: 'short',
        queries: [['fw_calls_waiting{$where}', '{{instance}}']],
      },
      {
        title: 'Tries by outcome',
        about: 'What is no answer is asked again.',
        unit: 'ops',
        queries: [[perSecond('fw_calls_total', 'outcome'), '{{outcome}}']],
      },
      {
        title: 'Time of a call',
        about: 'From sending it to its answer.',
        unit: 's',
        queries: quantiles('fw_call_duration_seconds', 'endpoint'),
      },
      {
        title: 'Tokens',
        about: 'Cached tokens are those of prompts that came from a prefix cache.',
        unit: 'short',
        queries: [
          [perSecond('fw_prompt_tokens_total', 'job'), 'in'],
          [perSecond('fw_cached_prompt_tokens_total', 'job'), 'of these cached'],
          [perSecond('fw_completion_tokens_total', 'job'), 'out'],
        ],
      },
      {
        title: 'In the servers',
        about: 'Requests in the batch and in the queue, as the servers say.',
        unit: 'short',
        queries: [
          ['fw_server_requests_running{$where}', 'running {{endpoint}}'],
          ['fw_server_requests_waiting{$where}', 'waiting {{endpoint}}'],
        ],
      },
      {
        title: 'KV cache',
        about: 'Near 1 the server preempts: lower --max-num-seqs, or give it more memory.',
        unit: 'percentunit',
        queries: [['fw_server_kv_cache_usage_ratio{$where}', '{{endpoint}}']],
      },
      {
        title: 'GPUs',
        about: 'Only where a pool file names them.',
        unit: 'percentunit',
        queries: [
          ['fw_gpu_use_ratio{$where}', 'busy {{endpoint}}'],
          ['fw_gpu_memory_used_ratio{$where}', 'memory {{endpoint}}'],
        ],
      },
    ],
  },
  {
    title: 'fw serve',
    panels: [
      {
        title: 'Batches',
        about: 'By state.',
        unit: 'short',
        queries: [['sum by (state) (fw_batches{$where})', '{{state}}']],
      },
      {
        title: 'Lines of batches',
        about: 'That came back.',
        unit: 'ops',
        queries: [[perSecond('fw_batch_items_total', 'outcome'), '{{outcome}}']],
      },
      {
        title: 'Time to the first deadline',
        about: 'Of a batch that is not done; and what all of them still take at the present rate.',
        unit: 's',
        queries: [
          ['fw_batch_deadline_seconds{$where}', 'deadline {{instance}}'],
          ['fw_batch_left_seconds{$where}', 'work left {{instance}}'],
        ],
      },
      {
        title: 'Lines left',
        about: 'Of all batches that are not done.',
        unit: 'short',
        queries: [['fw_batch_items_left{$where}', '{{instance}}']],
        kind: 'stat',
      },
      {
        title: 'Free disk',
        about: 'Where the server keeps what it has. Batches pause when it is full.',
        unit: 'bytes',
        queries: [['fw_data_free_bytes{$where}', '{{instance}}']],
        kind: 'stat',
      },
      {
        title: 'Oldest batch',
        about: 'Its age, by state.',
        unit: 's',
        queries: [['max by (state) (fw_batch_oldest_seconds{$where})', '{{state}}']],
      },
      {
        title: 'Paused batches',
        about: 'They wait because the disk is full or something else is broken.',
        unit: 'short',
        queries: [['fw_batches_paused{$where}', '{{instance}}']],
        kind: 'stat',
      },
      {
        title: 'Webhooks',
        about: 'Deliveries since the start, and those that have not arrived.',
        unit: 'short',
        queries: [['sum by (outcome) (fw_webhook_deliveries{$where})', '{{outcome}}']],
      },
      {
        title: 'Requests',
        about: 'By route and status.',
        unit: 'reqps',
        queries: [[perSecond('fw_http_requests_total', 'route, status'), '{{status}} {{route}}']],
      },
      {
        title: 'Gateway: wait for a place',
        about: 'Live requests go before batches.',
        unit: 's',
        queries: quantiles('fw_gateway_wait_seconds'),
      },
      {
        title: 'Gateway: TTFT',
        about: 'From sending a request to the first token of its streamed answer.',
        unit: 's',
        queries: quantiles('fw_gateway_ttft_seconds'),
      },
    ],
  },
  {
    title: 'Workers and shards',
    panels: [
      {
        title: 'Workers',
        about: 'Those that were heard of lately. Where each is and what it has is on the page of the server.',
        unit: 'short',
        queries: [['fw_workers{$where}', '{{instance}}']],
        kind: 'stat',
      },
      {
        title: 'Redis reached',
        about: '0: workers finish what they have, and get nothing new.',
        unit: 'bool',
        queries: [['fw_queue_up{$where}', '{{instance}}']],
        kind: 'stat',
      },
      {
        title: 'Since the last result',
        about: 'From any worker.',
        unit: 's',
        queries: [['fw_shard_last_result_seconds{$where}', '{{instance}}']],
        kind: 'stat',
      },
      {
        title: 'Shards',
        about: 'Planned: not in the queue yet. Offered: for any worker to take. Running: a worker has it.',
        unit: 'short',
        queries: [['sum by (state) (fw_shards{$where})', '{{state}}']],
      },
      {
        title: 'Work left',
        about: 'For one worker, at the rate of those that there are: what an autoscaler goes by.',
        unit: 's',
        queries: [['sum by (state) (fw_shard_work_seconds{$where})', '{{state}}']],
      },
      {
        title: 'Lines',
        about: 'Those that wait, and those that workers have.',
        unit: 'short',
        queries: [['sum by (state) (fw_shard_lines{$where})', '{{state}}']],
      },
    ],
  },
  {
    title: 'This process',
    panels: [
      {
        title: 'Main thread busy',
        about: 'Near 1 fw itself is the bottleneck: share the input between several runs (--shard).',
        unit: 'percentunit',
        queries: [['rate(fw_event_loop_busy_seconds_total{$where}[$__rate_interval])', '{{instance}}']],
      },
    ],
  },
];
