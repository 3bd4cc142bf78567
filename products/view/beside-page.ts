/**
 * The page of one row in two runs: what was decided, how good it was, and every text beside the other, with the difference
 * marked. What is the same in both is there once.
 */
import { failureOf } from '../../engine/core/item/item.ts';
import { counted } from '../../engine/core/item/wording.ts';
import { lossless } from '../../engine/core/json/lossless.ts';
import { isObject, type JsonObject, join, same } from '../../engine/core/json/pointer.ts';
import { type Html, html, joined, NONE } from '../kit/html.ts';
import { type Comparable, comparable } from './beside.ts';
import { cutAt, facts, folded, type Hidden, jsonText, type Links, Writer } from './item/writer.ts';
import { type Piece, wordDiff } from './word-diff.ts';

/** One of the two. */
export interface Side {
  /** null where this run does not have the row */
  line: JsonObject | null;
  /** the line as it is written */
  text: string;
  isRow: boolean;
  /** of --source: the columns of its row, where the line has none */
  joined?: JsonObject | null;
  /** what the run is called: its file */
  name: string;
}

/** Characters of a text that are compared. */
const LONGEST = 40_000;
const MOST_VALUES = 400;
const DEEPEST = 12;

/** The parts of the page below its head. Never throws. */
export function besideParts(
  sides: readonly [Side, Side],
  context: { hidden: Hidden | null; links: Links },
): Html {
  const writer = new Writer(context);
  const [first, second] = sides;
  if (sides.some(isTooDeep))
    return html`<article class="pair"><p class="problem">They nest too deep to be compared, so they are shown as they are written.</p><div class="beside">${sides.map(({ text }) => writer.block(text, LONGEST))}</div></article>`;
  const heads = html`<div class="beside">${[first, second].map(side => headOf(side, writer))}</div>`;
  if (first.line === null || second.line === null) return html`<article class="pair">${heads}</article>`;
  const [a, b] = [comparable(first.line, first.isRow), comparable(second.line, second.isRow)];
  return html`<article class="pair">
${heads}
${differenceWords(a, b, writer)}
${decisionParts(a, b, writer)}
${askedParts(first, second, writer)}
${answerParts(a, b, writer)}
${writer.hasLeftOut ? html`<p class="rest">This page leaves out parts of the lines: the page of each line has more.</p>` : NONE}
</article>`;
}

const isTooDeep = ({ text, isRow }: Side): boolean => !isRow && lossless(text)?.code === 'too-deep';

function headOf({ line, name, isRow }: Side, writer: Writer): Html {
  const named = html`<h2>${writer.text(name, 200)}</h2>`;
  if (line === null) return html`<div>${named}<p class="missing">This run does not have the row.</p></div>`;
  const { id, rung } = comparable(line, isRow);
  const failure = isRow ? undefined : failureOf(line);
  const wrong =
    failure === undefined || writer.isHidden('failure')
      ? NONE
      : html`<p class="problem"><b>${writer.text(failure.code, 100)}</b>: ${writer.text(failure.message, 600)}</p>`;
  const told = facts([
    id === null || writer.isHidden('id') ? null : writer.text(id, 200),
    rung === '' || writer.isHidden('rung') ? null : html`rung ${writer.text(rung, 60)}`,
  ]);
  return html`<div>${named}${told}${wrong}</div>`;
}

function differenceWords(a: Comparable, b: Comparable, writer: Writer): Html {
  if (writer.hidden !== null) return NONE;
  const parts = [
    same(a.decision, b.decision) ? '' : 'the decision',
    a.rung === b.rung ? '' : 'the rung',
    same(a.answers.map(said), b.answers.map(said)) ? '' : 'what was answered',
  ].filter(part => part !== '');
  return html`<p>${parts.length === 0 ? 'Both say the same.' : `They differ in ${listed(parts)}.`}</p>`;
}

/** `a, b and c` */
const listed = (parts: readonly string[]): string =>
  parts.length < 2 ? parts.join('') : `${parts.slice(0, -1).join(', ')} and ${parts.at(-1)}`;

const said = ({ value }: { value: unknown }): unknown => value;

function decisionParts(a: Comparable, b: Comparable, writer: Writer): Html {
  if (a.decision === undefined && b.decision === undefined) return NONE;
  return html`<section><h2>Decision</h2>${valuesBeside(a.decision, b.decision, 'out.', writer)}</section>`;
}

/** Characters of what was asked that are looked at without being wanted. */
const SHORT_ASKED = 600;

/** Another prompt asks something else: where they differ, that goes before what is the same, which is there once. */
function askedParts(first: Side, second: Side, writer: Writer): Html {
  if (first.isRow || second.isRow) return NONE;
  const others: Html[] = [];
  const alike: Html[] = [];
  for (const key of ['input', 'prompt', 'messages', 'request', 'initial_prompt']) {
    const [left, right] = [first, second].map(({ line, joined: row }) =>
      key === 'input' ? (line?.input ?? row ?? undefined) : line?.[key],
    );
    if (left === undefined && right === undefined) continue;
    const columns = key === 'input' ? 'in.' : undefined;
    writer.within(writer.left / 4, () => {
      if (!same(left, right)) others.push(html`<h3>${key}</h3>${valuesBeside(left, right, columns, writer)}`);
      else {
        const inside = isObject(left)
          ? valuesOnce(left, columns, writer)
          : writer.block(textOf(left), LONGEST);
        alike.push(folded(html`<b>${key}</b>, the same in both`, inside, textOf(left).length <= SHORT_ASKED));
      }
      return NONE;
    });
  }
  return html`${others.length === 0 ? NONE : html`<section><h2>They were asked otherwise</h2>${others}</section>`}${alike.length === 0 ? NONE : html`<section><h2>What both were asked</h2>${alike}</section>`}`;
}

function answerParts(a: Comparable, b: Comparable, writer: Writer): Html {
  if (writer.hidden?.hidesAnswers)
    return html`<p class="dim">What agents answered is not shown, since some of its values are hidden.</p>`;
  const pairs = pairsOf(a.answers, b.answers);
  const made = writer.list(
    pairs,
    ([left, right], index) =>
      writer.within(writer.left / Math.min(10, pairs.length - index), () => {
        const { agent } = (left ?? right) as Answer;
        const head = html`<b>${writer.text(agent, 200)}</b>`;
        const isSame = same(left?.value, right?.value);
        const inside = isSame
          ? writer.block(textOf(left?.value), LONGEST)
          : valuesBeside(left?.value, right?.value, `step.${agent}.`, writer);
        return isSame
          ? folded(html`${head} said the same in both`, inside)
          : html`<section class="answer"><h2>${writer.text(agent, 200)}</h2>${inside}</section>`;
      }),
    { most: 100, what: 'answer' },
  );
  return joined(made, '\n');
}

type Answer = Comparable['answers'][number];

/** Answers of the same agent, the first with the first; those of agents that only one run has stand alone. */
function pairsOf(a: readonly Answer[], b: readonly Answer[]): [Answer | undefined, Answer | undefined][] {
  const left = [...b];
  const pairs = a.map((one): [Answer, Answer | undefined] => {
    const at = left.findIndex(({ agent }) => agent === one.agent);
    return [one, at < 0 ? undefined : left.splice(at, 1)[0]];
  });
  return [...pairs, ...left.map((one): [undefined, Answer] => [undefined, one])];
}

const textOf = (value: unknown): string =>
  value === undefined ? '' : typeof value === 'string' ? value : jsonText(value);

/** Two objects value by value, what is the same folded away; anything else as texts. */
function valuesBeside(a: unknown, b: unknown, columns: string | undefined, writer: Writer): Html {
  if (!isObject(a) || !isObject(b)) return textsBeside(textOf(a), textOf(b), writer);
  const [left, right] = [leavesOf(a), leavesOf(b)];
  const places = [...new Set([...left.keys(), ...right.keys()])];
  const isOther = (place: string): boolean => left.get(place) !== right.get(place);
  const others = places.filter(isOther);
  const alike = places.filter(place => !isOther(place));
  const table = (of: readonly string[]): Html => valueTable(of, [left, right], columns, writer);
  const isSame = others.length === 0;
  return html`${isSame ? NONE : table(others)}${alike.length === 0 ? NONE : folded(`${counted(alike.length, 'value')} the same`, table(alike), isSame)}`;
}

/** An object that is the same in both. */
function valuesOnce(value: object, columns: string | undefined, writer: Writer): Html {
  const leaves = leavesOf(value);
  return valueTable([...leaves.keys()], [leaves, leaves], columns, writer);
}

type Leaves = ReadonlyMap<string, string>;

function valueTable(
  places: readonly string[],
  [left, right]: readonly [Leaves, Leaves],
  columns: string | undefined,
  writer: Writer,
): Html {
  const row = (place: string): Html => {
    const [, name = ''] = place.split('/');
    const head = html`<th scope="row">${writer.text(place.slice(1), 200)}</th>`;
    if (columns !== undefined && writer.isHidden(columns + name))
      return html`<tr>${head}<td class="hidden" colspan="2">hidden</td></tr>`;
    return html`<tr>${head}${cells(left.get(place), right.get(place), writer)}</tr>`;
  };
  return html`<div class="scroll" tabindex="0"><table class="columns beside-values"><tbody>${writer.list(places, row, { most: MOST_VALUES, what: 'value', as: 'tr' })}</tbody></table></div>`;
}

const NOTHING = html`<i class="dim">nothing</i>`;

function cells(left: string | undefined, right: string | undefined, writer: Writer): Html {
  if (left === right) return html`<td colspan="2">${writer.text(left ?? '', LONGEST)}</td>`;
  if (left === undefined || right === undefined) {
    const [one, other] = [left, right].map(text =>
      text === undefined ? NOTHING : writer.text(text, LONGEST),
    );
    return html`<td>${one as Html}</td><td>${other as Html}</td>`;
  }
  const [one, other] = marked(left, right, writer);
  return html`<td>${one}</td><td>${other}</td>`;
}

function textsBeside(left: string, right: string, writer: Writer): Html {
  if (left === right) return writer.block(left, LONGEST);
  const [one, other] = marked(left, right, writer);
  return html`<div class="beside"><pre class="written">${one}</pre><pre class="written">${other}</pre></div>`;
}

/** Both texts, what only one of them has marked: `del` in the first, `ins` in the second. */
export function marked(left: string, right: string, writer: Writer): [Html, Html] {
  const [a, b] = [writer.masked(left), writer.masked(right)].map(text => cutAt(text, LONGEST)) as [
    string,
    string,
  ];
  const pieces = wordDiff(a, b);
  const cut = (whole: string, part: string): Html =>
    part.length < whole.length ? writer.leftOut(counted(whole.length - part.length, 'more character')) : NONE;
  return [
    html`${sideOf(pieces, 'left', writer)}${cut(writer.masked(left), a)}`,
    html`${sideOf(pieces, 'right', writer)}${cut(writer.masked(right), b)}`,
  ];
}

const MOST_PIECES = 2_000;

function sideOf(pieces: readonly Piece[], side: 'left' | 'right', writer: Writer): Html {
  const own = pieces.filter(({ kind }) => kind === 'same' || kind === side);
  const made = writer.list(
    own,
    ({ kind, text }) => {
      if (kind === 'same') return writer.text(text, LONGEST);
      const words = html`<span class="unseen">[only here: </span>${writer.text(text, LONGEST)}<span class="unseen">]</span>`;
      return side === 'left' ? html`<del>${words}</del>` : html`<ins>${words}</ins>`;
    },
    { most: MOST_PIECES, what: 'piece', as: 'span' },
  );
  return joined(made);
}

/** The values of an object by their pointers, lists and objects taken apart. */
function leavesOf(value: object): Map<string, string> {
  const leaves = new Map<string, string>();
  const walk = (one: unknown, at: string, depth: number): void => {
    const inside = typeof one === 'object' && one !== null ? Object.entries(one) : [];
    if (inside.length === 0 || depth >= DEEPEST) leaves.set(at, textOf(one));
    else
      for (const [key, below] of inside) {
        if (leaves.size > 10 * MOST_VALUES) return;
        walk(below, join(at, key), depth + 1);
      }
  };
  walk(value, '', 0);
  return leaves;
}
