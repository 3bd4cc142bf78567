/** What a reader should know of what people said, before its figures. */
import { counted, number } from '../../engine/core/item/wording.ts';
import { show } from '../../engine/core/json/show.ts';
import { LEAST } from '../kit/agreement.ts';
import type { Collected } from './collect.ts';
import type { JudgeRow, Named } from './judged-lines.ts';

/** Of each judge: what is not counted, and what the shares do not say. */
export function judgedNotes(judges: readonly JudgeRow[], { asked }: Collected): string[] {
  const unit = asked.twins.length > 0 ? 'cell of twins' : 'application';
  const units = asked.twins.length > 0 ? 'cells of twins' : 'applications';
  return judges.flatMap(({ by, judged, otherText, missing, leftOut, clusters, small, ...row }) => {
    const notes: string[] = [];
    const who = show(by);
    const decided = row.right + row.wrong;
    const left = ({ n, ids }: Named, why: string): void => {
      if (n > 0)
        notes.push(
          `${who}: ${counted(n, 'judgement')} ${why}, not counted: ${ids.slice(0, 3).map(show).join(', ')}${n > 3 ? ', …' : ''}`,
        );
    };
    if (judged === 0) return [];
    left(otherText, 'of another answer than the line has now');
    left(missing, 'of ids that are not in these files');
    left(leftOut, 'of records that enter no rate');
    if (decided > 0 && small)
      notes.push(
        `${who}: ${counted(clusters, unit, units)} said to be right or wrong, fewer than ${LEAST}: the intervals are wide, and shares say little`,
      );
    if (row.unknown > 0)
      notes.push(
        `${who}: ${counted(row.unknown, 'decision')} said to be wrong, and nothing says what would be right: not in kappa`,
      );
    const { samples, picked } = row;
    for (const { seed, size, by: column, of, judged: n } of samples) {
      const drawn = `${who}: ${number(n)} of ${number(size)} that were drawn from ${number(of)} (seed ${seed})`;
      const rest = n < size ? '; those that are left may be the harder ones' : '';
      if (column !== undefined)
        notes.push(
          `${drawn} are judged, drawn from each value of ${show(column)} alike: the share of all judged is one of this sample, not of all ${number(of)}; those by ${show(column)} hold for each value${rest}`,
        );
      else if (n < size) notes.push(`${drawn} are judged${rest}`);
    }
    if (picked > 0)
      notes.push(
        `${who}: ${counted(picked, 'judgement')} of lines that were picked and not drawn: their shares say nothing of other lines`,
      );
    return notes;
  });
}
