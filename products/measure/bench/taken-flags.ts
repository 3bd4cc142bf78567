/** The flags of fw bench. */
import { ASK_OPTIONS } from '../../../engine/asking/agents/asking-options.ts';
import { COMMON } from '../../../engine/flow/join.ts';
import { POOL_OPTIONS } from '../../../engine/running/open-pool.ts';

export const OPTIONS = {
  'input-tokens': {
    type: 'integer',
    minimum: 1,
    maximum: 10_000_000,
    description:
      'Made-up prompts of so many tokens, the chat template included. Default: 400, if --output-tokens is given.',
  },
  'output-tokens': {
    type: 'integer',
    minimum: 1,
    maximum: 1_000_000,
    description:
      'Tokens of each answer to a made-up prompt (ignore_eos). Default: 128, if --input-tokens is given.',
  },
  'prefix-tokens': {
    type: 'integer',
    minimum: 0,
    maximum: 10_000_000,
    default: 0,
    description:
      'Tokens that all made-up prompts begin with, of those of --input-tokens: for a prefix cache.',
  },
  spread: {
    type: 'number',
    minimum: 0,
    maximum: 0.99,
    default: 0,
    description: 'Draw both lengths evenly between this share below and above. 0: all are the same.',
  },
  ledger: {
    type: 'string',
    file: 'read-folder',
    description:
      'Ledger of a run: made-up prompts and answers have the lengths of its calls, in their order.',
  },
  lora: {
    type: 'string',
    description:
      'LoRA adapters by the names that the servers list, such as a,b: requests ask for them in turn.',
  },
  concurrency: {
    type: 'string',
    description:
      'Closed loop: so many requests under way at a time; a list, such as 1,10,40, is run one by one. Default: 1.',
  },
  rate: {
    type: 'string',
    description:
      'Open loop: requests a second, whatever the answers take; a list, such as 2,5,inf. inf sends all at once.',
  },
  burstiness: {
    type: 'string',
    default: '1',
    description: 'Of --rate: 1 are Poisson arrivals, less comes in bursts, inf comes evenly.',
  },
  ramp: {
    type: 'string',
    description: 'Open loop whose rate grows evenly: FROM:TO/TIME, requests a second, such as 1:20/60s.',
  },
  sweep: {
    type: 'boolean',
    description: 'From one request at a time to as many as the servers take, and rates between the two.',
  },
  requests: {
    type: 'integer',
    minimum: 1,
    maximum: 10_000_000,
    description: 'Requests of each run. Default: those of the input, each once.',
  },
  duration: {
    type: 'string',
    description:
      'Send for so long in each run, such as 60s; what is under way then is waited for. Default: 60s for made-up prompts.',
  },
  warmup: {
    type: 'integer',
    minimum: 0,
    maximum: 100_000,
    description: 'Requests with other prompts before each run. Default: as many as are under way at once.',
  },
  'endpoints-up-to': {
    type: 'boolean',
    description:
      'Measure with the first endpoint, with two, … with all; load and requests are for each of them.',
  },
  repeat: {
    type: 'integer',
    minimum: 1,
    maximum: 100,
    default: 1,
    description: 'Run all loads so often, in turn: intervals of means need two or more.',
  },
  goodput: {
    type: 'array',
    items: { type: 'string' },
    description: 'Count requests that keep these bounds in ms: ttft:500,tpot:50,e2el:5000.',
  },
  agents: ASK_OPTIONS.agents,
  guided: ASK_OPTIONS.guided,
  seed: {
    type: 'integer',
    minimum: 0,
    maximum: 4_294_967_295,
    description:
      'Of made-up prompts and of arrivals. Default: another one each time, since a prefix cache may know the prompts of the last time.',
  },
  timeout: {
    type: 'string',
    default: '600s',
    description: 'A request that gets no byte for so long has failed.',
  },
  json: {
    type: 'string',
    file: 'write',
    description:
      "Write the figures in vllm bench serve's keys, and more under fw: an object, or a list of them where there are several runs.",
  },
  csv: {
    type: 'string',
    file: 'write',
    description: 'Write a table of all runs, a line each.',
  },
  html: {
    type: 'string',
    file: 'write',
    description: 'Write a page with charts, that needs no network and no script.',
  },
  detailed: { type: 'boolean', description: 'Of --json: also the figures and the text of each request.' },
  label: { type: 'string', description: 'Text that goes into --json.' },
  endpoint: POOL_OPTIONS.endpoint,
  pool: POOL_OPTIONS.pool,
  model: POOL_OPTIONS.model,
  'api-key-env': POOL_OPTIONS['api-key-env'],
  'max-line': COMMON['max-line'],
} as const;
