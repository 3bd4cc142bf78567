/** ledger check: whether a ledger is whole, by its structure, or by everything in it. */
import { keyOf } from '../../engine/asking/agents/request-body.ts';
import { writePage } from '../../engine/core/files/ndjson-out.ts';
import { number } from '../../engine/core/item/wording.ts';
import { command } from '../../engine/flow/command.ts';
import { type Checked, checkLedger } from './check-ledger.ts';
import { LEDGER, openReading } from './reading-options.ts';

export default command({
  name: 'ledger check',
  summary: 'Check that a ledger is whole; exit 65 where it is not.',
  examples: ['fw ledger check', 'fw ledger check --read-data --ledger out/ledger'],
  options: {
    ...LEDGER,
    'read-data': {
      type: 'boolean',
      description: 'Read every line: against its schema, and each key against its request.',
    },
  },

  async run({ ledger, 'read-data': readData }) {
    const lines: string[] = [];
    const reading = openReading(ledger, line => void lines.push(line), { torn: true });
    const checked = checkLedger(reading.paths, readData ? keyOf : null, reading.tell);
    const exit = reading.end();
    lines.push(...countsOf(checked, readData === true));
    if (exit !== 0) lines.push('damaged: fw ledger repair --out NEW copies the whole lines');
    await writePage(`${lines.join('\n')}\n`);
    return exit;
  },
});

function countsOf(checked: Checked, readData: boolean): string[] {
  const { files, lines, tries, answers, again, verdicts, stray, lost, keys, redacted } = checked;
  const counts = [
    `files ${number(files)} · lines ${number(lines)} · tries ${number(tries)} · calls answered ${number(answers)} · verdicts ${number(verdicts)}`,
  ];
  if (readData)
    counts.push(
      `keys that fit their requests ${number(keys)} · that cannot be checked, since texts were redacted ${number(redacted)}`,
    );
  if (again > 0) counts.push(`second answers to a call (the first is replayed) ${number(again)}`);
  if (stray > 0) counts.push(`verdicts on answers that are not here ${number(stray)}`);
  if (lost > 0) counts.push(`tries whose request lacks a text, which a repair did not find ${number(lost)}`);
  return counts;
}
