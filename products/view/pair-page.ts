/** The page of one pair: where it stands among those that are chosen, and both of its rows (beside-page.ts). */
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import { count, type Html, html, short } from '../kit/html.ts';
import { besideParts, type Side } from './beside-page.ts';
import { fieldsIn } from './cells.ts';
import { hideIn, maskOf } from './hide.ts';
import { addressOf, type Chosen, choose, isSeen, startingAt } from './pair-choice.ts';
import type { Pairs } from './pairs.ts';
import { notYet, PAGE } from './pairs-page.ts';
import type { Run } from './rows/run.ts';
import { hiddenIn, type View } from './view.ts';

/** Null where there is none of this number. */
export async function pairPage(view: View, pairs: Pairs, pair: number, wanted: Chosen): Promise<Html | null> {
  const found = await choose(view, pairs, wanted);
  if (found === null) return notYet(wanted);
  const { joined, chosen: all, asked: chosen } = found;
  if (pair >= joined.first.length || !isSeen(view, joined, pair)) return null;
  const read = [
    await sideAt(view, pairs.first, joined.first[pair] as number),
    await sideAt(view, pairs.second, joined.second[pair] as number),
  ] as const;
  const values = read.flatMap(({ hidden }) => hidden);
  const isBlind = view.hide.length > 0;
  const hidden = {
    has: (column: string) => view.isHidden(column),
    mask: maskOf(values),
    hidesAnswers: view.hide.some(name => /^(?:out|step)\./.test(name)),
  };
  const parts = besideParts([read[0].side, read[1].side], {
    hidden: isBlind ? hidden : null,
    links: { raw: null, filter: () => null },
  });
  const at = all.indexOf(pair);
  const link = (to: number | undefined, words: string, rel: string): Html =>
    to === undefined
      ? html`<span class="dim">${words}</span>`
      : html`<a rel="${rel}" href="/beside/${to}${addressOf(startingAt(chosen, 0))}">${words}</a>`;
  const id = read[0].id || read[1].id || `Pair ${pair + 1}`;
  const back = addressOf(startingAt(chosen, Math.max(0, at - (at % PAGE))));
  const stands =
    at < 0
      ? `not among the ${count(all.length)} pairs that are chosen`
      : `${count(at + 1)} of ${count(all.length)} pairs`;
  return html`<nav class="place" aria-label="Pairs"><a class="back" href="/beside${back}">All pairs</a>
${link(at > 0 ? all[at - 1] : undefined, 'Before', 'prev')}<span>${stands}</span>${link(at < 0 ? undefined : all[at + 1], 'Next', 'next')}</nav>
${hideIn(html`<h1>${short(id, 300)}</h1>${parts}`, values).html}`;
}

async function sideAt(
  view: View,
  run: Run,
  row: number,
): Promise<{ side: Side; hidden: string[]; id: string }> {
  if (row < 0) {
    const name = run.paths.join(', ');
    return { side: { line: null, text: '', isRow: false, name }, hidden: [], id: '' };
  }
  const read = await run.read(row);
  const { fields } = fieldsIn(read);
  const hidden = hiddenIn(view, { fields });
  const line: JsonObject | null = read.text === null ? null : read.value;
  const id = fields.get('id') ?? '';
  return {
    side: {
      ...{ line, text: read.text ?? '', isRow: read.isRow, joined: read.joined },
      name: `${read.file}:${read.line}`,
    },
    hidden,
    id,
  };
}
