/**
 * `fw view --html DIR`: a table of some rows and a page of each, to be put anywhere. No script, no request to anywhere, and
 * no link out of the folder.
 */
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { usageError } from '../../engine/core/item/failure.ts';
import { number } from '../../engine/core/item/wording.ts';
import { html, NONE } from '../kit/html.ts';
import { ASSETS, stillPage } from './layout.ts';
import { STILL } from './links.ts';
import { type Known, onePage } from './one-page.ts';
import { ALL_ROWS } from './query.ts';
import { tablePage } from './table-page.ts';
import type { View } from './view.ts';

/** Exit 64 where something is there already: what is in a folder that is put somewhere is to be known. */
export function expectNew(folder: string): void {
  if (existsSync(folder) && readdirSync(folder).length > 0)
    throw usageError(`--html: expected a new or an empty folder, found files in ${folder}`);
}

/** Writes the rows of the sample of `view`; how many they are. */
export async function writeStill(view: View, folder: string, known: Known): Promise<number> {
  await view.drawn();
  const selected = await view.select(ALL_ROWS);
  mkdirSync(folder, { recursive: true });
  const write = (name: string, text: string): void => writeFileSync(join(folder, name), text);
  write('view.css', ASSETS['view.css']);
  const sample = view.sample;
  const words =
    sample === null || sample.rows.length === sample.of
      ? `all ${number(selected.count)} rows`
      : `${number(selected.count)} rows, drawn with seed ${sample.seed} from ${number(sample.of)}`;
  const top = html`<span class="files">${view.isHidden('file') ? NONE : view.run.paths.join(', ')}</span><span class="dim">${words}</span>`;
  const parts = { view, judging: null, links: STILL };
  const { main } = await tablePage(parts, selected, selected.count);
  write('index.html', stillPage({ title: 'fw view', top, main }));
  for (let at = 0; at < selected.count; at++) {
    const row = selected.at(at);
    const { title, main: one } = await onePage({ ...parts, known }, row, selected);
    write(`row-${row + 1}.html`, stillPage({ title, top, main: one }));
  }
  return selected.count;
}
