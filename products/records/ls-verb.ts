/** ledger ls: the runs of a ledger, a line each. */
import { join, relative } from 'node:path';
import type { Header } from '../../engine/asking/ledger/ledger-format.ts';
import { type Holder, holdersIn, stateOf } from '../../engine/asking/ledger/lock.ts';
import { writePage } from '../../engine/core/files/stdout.ts';
import { aligned } from '../../engine/core/item/aligned.ts';
import { counted, cut, number } from '../../engine/core/item/wording.ts';
import { visible } from '../../engine/core/json/visible.ts';
import { command } from '../../engine/flow/command.ts';
import { LEDGER, openReading, toStderr } from './reading-options.ts';
import { type Run, runsOf } from './runs.ts';

const HEADS = [
  'started',
  'label',
  'model',
  'endpoints',
  'tokens in',
  'out',
  'bytes',
  'calls',
  'state',
  'file',
];
const NUMBERS = [4, 5, 6];
const MAX_LABEL = 60;

export default command({
  name: 'ledger ls',
  summary: 'List the runs of a ledger: start, stage, model, endpoints, tokens, outcomes, ending, damage.',
  examples: ['fw ledger ls', 'fw ledger ls --ledger out/ledger'],
  options: LEDGER,

  async run({ ledger }) {
    const reading = openReading(ledger, toStderr('ls'));
    const holders = holdersIn(join(reading.at, 'locks'));
    const rows = [HEADS];
    for (const path of reading.paths) {
      for (const run of runsOf(path))
        rows.push(runRow(run, { file: relative(reading.at, path) || path, holders }));
    }
    await writePage(`${aligned(rows, NUMBERS).join('\n')}\n`);
    return reading.end();
  },
});

function runRow(run: Run, { file, holders }: { file: string; holders: readonly Holder[] }): string[] {
  const { header, outcomes, tokens, bytes } = run;
  const calls = [...outcomes].map(([outcome, times]) => `${number(times)} ${outcome}`).join(', ');
  const text = (value: string | undefined): string => visible(cut(value ?? '?', MAX_LABEL));
  return [
    text(header?.started),
    text(header?.label),
    text(header?.model),
    text(endpointsOf(header?.endpoints ?? [])),
    number(tokens.prompt),
    number(tokens.completion),
    number(bytes),
    visible(calls) || 'none',
    visible([endOf(run, holders), ...damageIn(run)].join(', ')),
    visible(file),
  ];
}

function endpointsOf([first, ...others]: readonly string[]): string {
  if (first === undefined) return 'none';
  return others.length === 0 ? first : `${first} + ${others.length}`;
}

/** How it ended, by its last line; where it has none, by its lock: a run that is killed leaves it behind. */
function endOf({ end, header }: Run, holders: readonly Holder[]): string {
  if (end !== null) return end;
  const holder = header && holders.find(one => isOf(one, header));
  if (!holder) return 'no end on record';
  const state = stateOf(holder);
  if (state === 'unseen') return `cannot be checked from this machine (${cut(holder.host, MAX_LABEL)})`;
  return state === 'lives' ? 'running' : 'killed';
}

/** The lock is taken as the run begins: process ids are used again, but not within a minute. */
function isOf({ host, pid, since }: Holder, header: Header): boolean {
  const ms = Date.parse(since) - Date.parse(header.started);
  return host === header.host && pid === header.pid && Math.abs(ms) < 60_000;
}

function damageIn({ damaged, torn, unreadable }: Run): string[] {
  const states: string[] = [];
  if (damaged > 0) states.push(`damaged: ${counted(damaged, 'byte')}`);
  if (torn > 0) states.push(`torn: ${counted(torn, 'byte')}`);
  if (unreadable !== null) states.push(cut(unreadable, MAX_LABEL));
  return states;
}
