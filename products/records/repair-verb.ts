/** ledger repair: what is whole of a damaged ledger, in a new folder. */

import { version } from '../../engine/core/config/package.ts';
import { writePage } from '../../engine/core/files/ndjson-out.ts';
import { dataError, EXIT, usageError } from '../../engine/core/item/failure.ts';
import { number } from '../../engine/core/item/wording.ts';
import { visible } from '../../engine/core/json/visible.ts';
import { command } from '../../engine/flow/command.ts';
import { LEDGER, openReading } from './reading-options.ts';
import { repairLedger } from './repair-ledger.ts';

export default command({
  name: 'ledger repair',
  summary: 'Copy the whole lines of a damaged ledger into a new folder, and say what was lost.',
  examples: ['fw ledger repair --out ledger-2', 'fw ledger repair --ledger out/ledger --out out/ledger-2'],
  options: {
    ...LEDGER,
    out: {
      type: 'string',
      file: 'write-folder',
      description: 'The new folder; the old ledger is left as it is.',
    },
  },

  async run({ ledger, out }) {
    if (out === undefined) throw usageError('expected a new folder, found none: fw ledger repair --out NEW');
    const lines: string[] = [];
    const { at, paths, tell, end } = openReading(ledger, line => void lines.push(line), { torn: true });
    const repaired = repairLedger(at, paths, { to: out, version: version(), tell });
    const { files, tries, headers, found, lost } = repaired;
    const exit = end();
    if (lines.length > 0) lines.unshift('lost:');
    if (headers > 0) lines.push(`lost headers, rebuilt from the first call after each: ${number(headers)}`);
    if (found > 0) lines.push(`lost texts of requests, found in another file: ${number(found)}`);
    if (lost > 0)
      lines.push(
        `lost texts of requests (their calls are replayed, but cannot be shown in full): ${number(lost)}`,
      );
    lines.push(
      `${visible(out)}: files ${number(files)} · lines ${number(repaired.lines)} · tries ${number(tries)}`,
    );
    await writePage(`${lines.join('\n')}\n`);
    if (files === 0)
      throw dataError(
        `expected whole lines of a ledger in ${at}, found none: nothing was copied, and no folder made`,
      );
    return exit === EXIT.io ? exit : EXIT.ok;
  },
});
