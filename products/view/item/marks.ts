/**
 * What a model said, with what fw changed in it marked where it stands: `del` for what was left out, `ins` for what was put.
 * Without the insertions it is the model's text to the letter, without the deletions the text that was read. Each mark has
 * words for who hears the page.
 */
import { applyEdits, type Edit } from '../../../engine/answers/entries.ts';
import { counted, number } from '../../../engine/core/item/wording.ts';
import { Html, html, joined, NONE } from '../../kit/html.ts';
import { cutAt, LONG_TEXT, type Writer } from './writer.ts';

/** Marks that a page has; a hostile line has more. */
const MOST_MARKS = 300;
/** Characters around a change in a text that is too long to be shown whole. */
const AROUND = 400;
/** Text from which a deletion is dimmed rather than struck through: somebody may want to read it, such as reasoning. */
const LONG_CUT = 80;

/** The text, marked; where the changes are not of this text, the text alone and a word about it. */
export function markedText(said: string, edits: readonly Edit[], writer: Writer): Html {
  if (edits.length === 0) return writer.block(said);
  if (!areOf(said, edits))
    return html`${writer.block(said)}<p class="dim">The changes on record are not of this text, so they are not marked in it.</p>`;
  // a value may stand across a mark, and would be seen in two parts
  if (writer.masked(said) !== said)
    return html`${writer.block(applyEdits(said, edits))}<p class="dim">The syntax is mended and ${counted(edits.length, 'change')} not marked, since columns are hidden.</p>`;
  const marks = edits.slice(0, MOST_MARKS);
  const parts: Html[] = [];
  let from = 0;
  for (const edit of marks) {
    if (writer.isFull) break;
    parts.push(between(said, from, edit.offset, writer), mark(edit, writer));
    from = edit.offset + edit.cut.length;
  }
  const rest = edits.length - marks.length;
  parts.push(between(said, from, said.length, writer));
  const more =
    rest > 0
      ? html`<p class="dim">${writer.leftOut(`${counted(rest, 'more change')}, not marked here`)}</p>`
      : '';
  return html`<pre class="written marked">${joined(parts)}</pre>${more}`;
}

/** The text between two changes; of a long one what is around them. */
function between(said: string, from: number, to: number, writer: Writer): Html {
  const text = said.slice(from, to);
  if (text.length <= LONG_TEXT / 4) return writer.text(text, LONG_TEXT);
  const head = cutAt(text, from === 0 ? LONG_TEXT / 8 : AROUND);
  let tail = text.length - AROUND;
  if (isLow(text.charCodeAt(tail))) tail += 1;
  const left = writer.leftOut(`${number(tail - head.length)} characters …`);
  return html`${writer.text(head, LONG_TEXT)}${left}${writer.text(text.slice(tail), LONG_TEXT)}`;
}

const isLow = (unit: number): boolean => unit >= 0xdc00 && unit < 0xe000;

const unseen = (words: string): Html => html`<span class="unseen">${words}</span>`;

function mark({ rule, cut, put }: Edit, writer: Writer): Html {
  const name = rule.length > 60 ? 'a rule' : rule;
  const title = writer.attribute('title', name);
  const of = (what: string, text: string): Html =>
    html`${unseen(`[${what}, ${name}: `)}${writer.text(text, LONG_TEXT / 4)}${unseen(']')}`;
  const long = new Html(cut.length > LONG_CUT ? ' class="long"' : '');
  const left = cut === '' ? NONE : html`<del${long}${title}>${of('left out', cut)}</del>`;
  return put === '' ? left : html`${left}<ins${title}>${of('put in', put)}</ins>`;
}

/** Whether the entries are sorted, apart from each other, and cut what stands there: lines come from anywhere. */
export function areOf(said: string, edits: readonly Edit[]): boolean {
  let from = 0;
  return edits.every(({ offset, cut }) => {
    if (offset < from || !said.startsWith(cut, offset)) return false;
    from = offset + cut.length;
    return from <= said.length;
  });
}
