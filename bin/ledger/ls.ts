/** ledger ls: the runs of a ledger, a line each. */
import { relative } from 'node:path';
import { cut, number } from '../../engine/flow/account.ts';
import { visible } from '../../engine/flow/visible.ts';
import { type Run, runsOf } from '../../engine/ledger/runs.ts';
import { command } from '../command.ts';
import { writePage } from '../stdout.ts';
import { aligned, LEDGER, openReading, toStderr } from './reading.ts';

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
const LONGEST = 60;

export default command({
  name: 'ledger ls',
  summary: 'List the runs of a ledger: when, what, where, tokens, calls by what became of them, damage.',
  examples: ['fw ledger ls', 'fw ledger ls --ledger out/ledger'],
  options: LEDGER,

  async run({ ledger }) {
    const reading = openReading(ledger, toStderr('ls'));
    const rows = [HEADS];
    for (const path of reading.paths) {
      for (const run of runsOf(path)) rows.push(rowOf(run, relative(reading.at, path) || path));
    }
    await writePage(`${aligned(rows, NUMBERS).join('\n')}\n`);
    return reading.end();
  },
});

function rowOf(run: Run, file: string): string[] {
  const { header, outcomes, tokens, bytes } = run;
  const calls = [...outcomes].map(([outcome, times]) => `${number(times)} ${outcome}`).join(', ');
  const text = (value: string | undefined): string => visible(cut(value ?? '?', LONGEST));
  return [
    text(header?.started),
    text(header?.label),
    text(header?.model),
    text(endpointsOf(header?.endpoints ?? [])),
    number(tokens.prompt),
    number(tokens.completion),
    number(bytes),
    visible(calls) || 'none',
    visible(stateOf(run)),
    visible(file),
  ];
}

function endpointsOf([first, ...others]: readonly string[]): string {
  if (first === undefined) return 'none';
  return others.length === 0 ? first : `${first} + ${others.length}`;
}

function stateOf({ damaged, torn, unreadable }: Run): string {
  const states: string[] = [];
  if (damaged > 0) states.push(`damaged: ${number(damaged)} bytes`);
  if (torn > 0) states.push(`torn: ${number(torn)} bytes`);
  if (unreadable !== null) states.push(cut(unreadable, LONGEST));
  return states.join(', ') || 'whole';
}
