/** fw plan --calibrate, as a command: to a file with its page on stdout, or the file to stdout and the page to stderr. */
import { writeFileSync } from 'node:fs';
import { systemClock, TIMING } from '../../../engine/asking/endpoints/pool-clock.ts';
import { poolSettings, readUrl } from '../../../engine/asking/endpoints/settings.ts';
import { writePage } from '../../../engine/core/files/ndjson-out.ts';
import { EXIT, ioError, usageError } from '../../../engine/core/item/failure.ts';
import type { Preset } from '../../simulator/presets.ts';
import { calibrate } from './calibrate.ts';
import { renderCalibration } from './calibrate-page.ts';

export interface CalibrateOptions {
  url: string;
  base: Preset;
  model: string | undefined;
  /** the file; undefined is stdout */
  out: string | undefined;
}

export async function runCalibration({ url: text, base, model, out }: CalibrateOptions): Promise<number> {
  const url = readUrl(text, message => usageError(`--calibrate: ${message}`));
  const say = (message: string): void => void process.stderr.write(`fw plan: ${message}\n`);
  const { key } = poolSettings({}, process.env);
  const found = await calibrate({ url, key, base, model, clock: systemClock, timing: TIMING, say });
  const page = renderCalibration(found, base);
  const json = `${JSON.stringify(found.file, null, 2)}\n`;
  if (out === undefined) {
    process.stderr.write(page);
    await writePage(json);
    return EXIT.ok;
  }
  try {
    writeFileSync(out, json);
  } catch (error) {
    throw ioError(`--out ${out}: the preset cannot be written: ${(error as Error).message}`);
  }
  await writePage(`${page}wrote ${out}: fw plan … --preset ${out}\n`);
  return EXIT.ok;
}
