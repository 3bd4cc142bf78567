/** ledger prune: removes old days. */
import { existsSync } from 'node:fs';
import { writePage } from '../../engine/core/files/ndjson-out.ts';
import { EXIT, usageError } from '../../engine/core/item/failure.ts';
import { number } from '../../engine/core/item/wording.ts';
import { visible } from '../../engine/core/json/visible.ts';
import { command } from '../../engine/flow/command.ts';
import { pruneLedger } from './prune-days.ts';
import { LEDGER, placeOf } from './reading-options.ts';

export default command({
  name: 'ledger prune',
  summary: 'Remove the days of a ledger before a date. What was on record only there is asked again.',
  examples: [
    'fw ledger prune --before 2026-11-01',
    'fw ledger prune --before 2026-11-01 --ledger serve/gateway',
  ],
  options: {
    ...LEDGER,
    before: { type: 'string', description: 'The first day that stays, such as 2026-11-01 (UTC).' },
  },

  async run({ ledger, before }) {
    if (before === undefined)
      throw usageError('expected a day, found none: fw ledger prune --before 2026-11-01');
    const at = placeOf(ledger);
    if (!existsSync(at)) throw usageError(`${at}: expected the folder of a ledger, found none`);
    const { days, files, bytes } = pruneLedger(at, before, new Date().toISOString().slice(0, 10));
    await writePage(
      `${visible(at)}: removed ${number(days)} days · files ${number(files)} · bytes ${number(bytes)}\n`,
    );
    return EXIT.ok;
  },
});
