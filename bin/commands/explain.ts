/**
 * explain: the whole story of one item, from files: what was asked, each attempt, each change with before and after.
 *
 *   fw explain 50acc2a3e4e6 items.ndjson
 *   fw explain 50acc2a3e4e6 items.ndjson --value /decision/output/interest_rate
 */
import { answersIn, isProvenance } from '../../engine/answers/answers-of-line.ts';
import { advisor } from '../../engine/audit/advice.ts';
import { storyOf } from '../../engine/audit/history.ts';
import { type Hit, namesOf, type Search, searchById } from '../../engine/audit/search.ts';
import { keysNear, type Vouching, whoSaid } from '../../engine/audit/value-provenance.ts';
import { besidesOf, expandPaths } from '../../engine/core/files/input-files.ts';
import { writePage } from '../../engine/core/files/ndjson-out.ts';
import { EXIT, usageError } from '../../engine/core/item/failure.ts';
import { isItem } from '../../engine/core/item/item.ts';
import { number } from '../../engine/core/item/wording.ts';
import { lossless } from '../../engine/core/json/lossless.ts';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import { visible } from '../../engine/core/json/visible.ts';
import { command } from '../../engine/flow/command.ts';
import { COMMON } from '../../engine/flow/join.ts';
import { hashOfResult } from '../../engine/flow/provenance.ts';
import { stages } from '../../stages/index.ts';

export default command({
  name: 'explain',
  summary: 'Show the history of one item, or whether a model really said one of its values.',
  positional: 'ID [FILE…]',
  examples: [
    'fw explain 50acc2a3e4e6 items.ndjson',
    'fw explain 50acc2a3e4e6 items.ndjson --value /decision/output/interest_rate',
    "fw explain 37/risk_manager,regulatory 'out/*.jsonl' how.jsonl --value /business_decision/interest_rate",
  ],
  options: {
    value: {
      type: 'string',
      description:
        'JSON Pointer to a value in the line: only tell whether a model said it, and in which form.',
    },
    'max-line': {
      ...COMMON['max-line'],
      description: 'Maximum line length in bytes; longer lines are skipped.',
    },
  },

  async run({ value: pointer, 'max-line': maxLine }, [id, ...patterns]) {
    if (id === undefined || id === '') throw usageError('expected an id, found none: fw explain ID [FILE…]');
    if (pointer !== undefined && pointer !== '' && !pointer.startsWith('/')) {
      throw usageError(`--value: expected a JSON Pointer such as /decision/output, found '${pointer}'`);
    }
    const paths = await expandPaths(patterns);
    const search = await searchById([...paths, ...besidesOf(paths)], id, maxLine);
    if (search.hits.length === 0) return notFound(id, search);
    const told = pointer === undefined ? await stories(search.hits) : values(search.hits, pointer);
    if (told === null) return EXIT.failed;
    await writePage(`${told.map(lines => lines.join('\n')).join('\n\n')}\n`);
    return EXIT.ok;
  },
});

async function stories(hits: readonly Hit[]): Promise<string[][]> {
  const advice = await advisor(stages);
  return hits.map(hit => {
    const loss = lossless(hit.text);
    if (loss?.code === 'too-deep') {
      return [visible(hit.id), `  ${visible(hit.where)} · ${visible(loss.message)}, so it is not shown`];
    }
    const lines = storyOf(hit, advice);
    const note = loss && `  not shown as it is written: ${visible(loss.message)}`;
    return note ? [...lines.slice(0, 2), note, ...lines.slice(2)] : lines;
  });
}

function values(hits: readonly Hit[], pointer: string): string[][] | null {
  const lines = hits.filter(({ line }) => !isProvenance(line));
  const told = lines.flatMap(hit => {
    const said =
      lossless(hit.text)?.code === 'too-deep' ? null : whoSaid(hit.line, pointer, vouching(hit, hits));
    return said === null ? [] : [[`${visible(hit.id)}  ${visible(hit.where)}`, ...said]];
  });
  if (told.length > 0) return told;
  const [first] = lines;
  const near = first && keysNear(first.line, pointer);
  const found = near
    ? `at ${near.at || 'the root'} of ${first.where} are ${near.keys.join(', ') || 'none'}`
    : 'no item';
  process.stderr.write(
    `fw explain: --value: expected a value at ${visible(pointer)}, found none; ${visible(found)}\n`,
  );
  return null;
}

/** The line beside a legacy result that says how its answers came about: of --provenance, or the item itself. */
function vouching({ line, id }: Hit, hits: readonly Hit[]): Vouching | null {
  if (isItem(line)) return null;
  const names = new Set([id, ...namesOf(line)]);
  const others = hits.filter(hit => hit.line !== line && namesOf(hit.line).some(name => names.has(name)));
  const best =
    others.find(hit => isItem(hit.line)) ??
    others.find(hit => isProvenance(hit.line) && isOf(hit.line, line));
  if (best === undefined) return null;
  const { line: by, where } = best;
  const { sha256 } = by;
  return { answers: answersIn(by), where, isBound: isItem(by) || sha256 !== undefined };
}

/** Whether a line of provenance is of these very answers; version 0.1.0 did not say of which. */
function isOf({ sha256 }: JsonObject, result: JsonObject): boolean {
  return sha256 === undefined || sha256 === hashOfResult(result);
}

function notFound(id: string, { several, near, others, read, unreadable }: Search): number {
  const bad = unreadable > 0 ? `, of which ${number(unreadable)} could not be read` : '';
  const known =
    near.length > 0
      ? `; near it: ${near.join(', ')}`
      : others.length > 0
        ? `; there are: ${others.join(', ')}`
        : '';
  const found =
    several.length > 0
      ? `several that begin with it: ${several.join(', ')}`
      : `none in ${number(read)} ${read === 1 ? 'line' : 'lines'}${bad}${known}`;
  process.stderr.write(`fw explain: expected one item with the id ${visible(id)}, found ${visible(found)}\n`);
  return EXIT.failed;
}
