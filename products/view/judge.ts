/** A verdict as a form of fw view sends it: read with suspicion, said to the labels, and where to go from there. */
import { VERDICTS, type Verdict } from '../../engine/audit/labels-file.ts';
import type { Sample } from './draw.ts';
import { type Judging, LONGEST_NOTE } from './judging.ts';
import { LIVE } from './links.ts';
import { nextAddress } from './one-page.ts';
import { queryOf } from './query.ts';
import type { View } from './view.ts';

/** The address of what is looked at next, or an HTTP status and what was expected. */
export type Judged = { to: string } | { status: number; message: string };

/** `fields`: `row`, `path`, `verdict`, `note`, and as `query` the search of the page that the form stood on. */
export async function judge(
  fields: Record<string, unknown>,
  { view, judging }: { view: View; judging: Judging },
): Promise<Judged> {
  const { row: at, path = '', verdict, note = '', query = '' } = fields;
  if (
    !['string', 'number', 'undefined'].includes(typeof at) ||
    typeof path !== 'string' ||
    typeof note !== 'string' ||
    typeof query !== 'string' ||
    note.length > LONGEST_NOTE
  )
    return { status: 400, message: 'Expected row, path, verdict, note and query as texts.' };
  const selected = await view.select(queryOf(query.replace(/^\?/, '')));
  if (verdict === 'back') return { to: LIVE.item(judging.takeBack() ?? Number(at), selected.query) };
  const row = view.shownRow(String(at));
  if (row === null) return { status: 404, message: 'There is no such row.' };
  if (!VERDICTS.includes(verdict as Verdict) || (path !== '' && !path.startsWith('/')))
    return {
      status: 400,
      message: `Expected a verdict that is ${VERDICTS.join(', ')}, of a line or of a place in it.`,
    };
  const { text, value } = await view.run.read(row);
  const line = text === null ? null : value;
  const refusal = judging.refusal(line);
  if (line === null || refusal !== null)
    return { status: 409, message: `It cannot be judged: ${refusal ?? ''}` };
  judging.say({ row, line, path, verdict: verdict as Verdict, note, sample: drawnBy(view.sample) });
  return { to: path === '' ? nextAddress(selected, row) : LIVE.item(row, selected.query) };
}

/** What a label says of the sample that its row was drawn for. */
function drawnBy(sample: Sample | null) {
  if (sample === null) return undefined;
  const { seed, size, by, of } = sample;
  return { seed, size, ...(by !== undefined && { by }), of };
}
