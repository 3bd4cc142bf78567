/** fw plan --calibrate, as a command: to a file with its page on stdout, or the file to stdout and the page to stderr. */
import { writeFileSync } from 'node:fs';
import { systemClock, TIMING } from '../../../engine/asking/endpoints/pool-clock.ts';
import { poolSettings, readUrl } from '../../../engine/asking/endpoints/settings.ts';
import { writePage } from '../../../engine/core/files/ndjson-out.ts';
import { EXIT, ioError, usageError } from '../../../engine/core/item/failure.ts';
import { aligned, percent } from '../../../engine/core/item/wording.ts';
import type { Preset } from '../../simulator/presets.ts';
import { type Calibration, calibrate } from './calibrate.ts';
import { worstOff } from './constants.ts';

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

const CONSTANTS = [
  ['weights_ms', 'reading the weights, ms'],
  ['ms_per_token', 'computing a token, ms'],
  ['kv_us_per_1k_tokens', 'reading 1,000 tokens of KV cache, µs'],
  ['attention_ns_per_product', 'attention of a prompt, ns'],
  ['sequence_ms', 'CPU of a sequence in a step, ms'],
] as const;
/** What a preset file means that leaves them out. */
const UNSAID = { attention_ns_per_product: 0, sequence_ms: 0.008 };

/** Farther off than presets of other people's machines are near saturation. */
const POOR = 0.25;
const UNLIKE =
  'A load is more than 25 % off: the server was busy with something else, or the formula does not fit it. Calibrate again while it is idle.';

function renderCalibration({ file, rows, overheadMs }: Calibration, base: Preset): string {
  const constants = CONSTANTS.map(([name, words]) => {
    const before = { ...UNSAID, ...base.file }[name];
    return [words, String(before), String(file[name])];
  });
  const loads = rows.map(({ load, fitted }) => {
    const off = fitted / load.took - 1;
    return [
      load.name,
      load.took.toFixed(1),
      fitted.toFixed(1),
      `${off < 0 ? '−' : '+'}${percent(Math.abs(off))}`,
    ];
  });
  return `${[
    ...aligned([['constant', base.name, file.name], ...constants], [1, 2]),
    '',
    ...aligned([['load', 'measured, ms', 'fitted, ms', 'off'], ...loads], [1, 2, 3]),
    '',
    ...(worstOff({ rows }) > POOR ? [UNLIKE, ''] : []),
    `Before and after the engine ${overheadMs.toFixed(1)} ms a request passed. From now on: ±${percent(file.error.mid_load)} at mid load, ±${percent(file.error.near_saturation)} near saturation.`,
  ].join('\n')}\n`;
}
