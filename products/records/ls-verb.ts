/** ledger ls: the runs of a ledger, a line each. */
import { join, relative } from 'node:path';
import { ENDS, type Header, isCall, isEnd, isHeader } from '../../engine/asking/ledger/ledger-format.ts';
import { type Holder, holdersIn, stateOf } from '../../engine/asking/ledger/lock.ts';
import { callIn, linesOf, parsed } from '../../engine/asking/ledger/read-ledger.ts';
import { writePage } from '../../engine/core/files/ndjson-out.ts';
import { nameIn } from '../../engine/core/item/account.ts';
import type { End } from '../../engine/core/item/call.ts';
import type { Usage } from '../../engine/core/item/item.ts';
import { aligned, counted, cut, number } from '../../engine/core/item/wording.ts';
import { visible } from '../../engine/core/json/visible.ts';
import { command } from '../../engine/flow/command.ts';
import { LEDGER, openReading, toStderr } from './reading-options.ts';

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

export interface Run {
  path: string;
  /** null where it is lost */
  header: Header | null;
  /** tries by what became of them */
  outcomes: Map<string, number>;
  tokens: Required<Usage>;
  /** of whole lines, of damage, and of a torn tail */
  bytes: number;
  damaged: number;
  torn: number;
  /** how it ended, as its last line says; null where none does */
  end: End | null;
  /** why the file could not be read to its end; null where it could */
  unreadable: string | null;
}

/** Of one file; files that were put end to end have several. A file without a whole line is a run without a header. */
export function* runsOf(path: string): Generator<Run> {
  let run = newRun(path);
  let isBegun = false;
  const lines = linesOf(path, ({ kind, length, message }) => {
    if (kind === 'torn') run.torn += length;
    else if (length > 0) run.damaged += length;
    else run.unreadable ??= message;
  });
  for (const { bytes, header } of lines) {
    if (isBegun && isHeader(bytes)) {
      yield run;
      run = newRun(path);
    }
    isBegun = true;
    run.header = header;
    run.bytes += bytes.length + 1;
    if (isCall(bytes)) add(run, bytes);
    else if (isEnd(bytes)) run.end = endIn(bytes);
  }
  yield run;
}

function newRun(path: string): Run {
  const tokens = { prompt: 0, completion: 0, cached: 0 };
  const sums = { bytes: 0, damaged: 0, torn: 0 };
  return { path, header: null, outcomes: new Map(), tokens, ...sums, end: null, unreadable: null };
}

function endIn(bytes: Buffer): End | null {
  const { end } = parsed(bytes.toString()) ?? {};
  return typeof end === 'string' && ENDS.includes(end) ? (end as End) : null;
}

function add({ outcomes, tokens }: Run, bytes: Buffer): void {
  const call = callIn(bytes);
  const outcome = nameIn(outcomes, call?.outcome ?? 'not understood');
  outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
  tokens.prompt += call?.usage?.prompt ?? 0;
  tokens.completion += call?.usage?.completion ?? 0;
  tokens.cached += call?.usage?.cached ?? 0;
}
