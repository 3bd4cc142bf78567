/** fw plan --explain: what the time of a step is made of, each term with its formula, each constant with its source. */
import { aligned, number } from '../../engine/core/item/wording.ts';
import { allParameters } from '../simulator/model-facts.ts';
import type { Told } from '../simulator/preset-options.ts';
import type { Preset } from '../simulator/presets.ts';
import { computedIn, madeIn } from '../simulator/speculation.ts';
import { CONSTANTS } from '../simulator/step-constants.ts';
import { stepMs } from '../simulator/steptime.ts';
import { limitsWords } from './server-words.ts';

/** Steps that are shown as examples: sequences that decode, and their context. */
const EXAMPLES = [
  [1, 1_000],
  [16, 1_000],
  [128, 1_000],
] as const;

export function explained({ preset, terms, model }: Told): string {
  const { file, limits } = preset;
  const lines = [
    `${preset.name}: ${file.model}${model ? `, ${(allParameters(model) / 1e9).toFixed(2)} B weights` : ''}, on ${file.gpu}`,
    `server   ${limitsWords(preset)}`,
    `basis    ${file.basis}`,
    `source   ${file.source}`,
    '',
  ];
  if (terms.length > 0) {
    const rows = terms.map(({ name, value, unit, formula }) => [name, value.toPrecision(3), unit, formula]);
    lines.push(...aligned([['term', 'value', 'unit', 'from'], ...rows], [1]), '');
    const constants = Object.values(CONSTANTS).map(
      ({ what, value, source }) => `${value}  ${what}\n    ${source}`,
    );
    lines.push('constants, none of which was fitted to runs of a whole server', ...constants, '');
  }
  const shown = EXAMPLES.filter(([sequences]) => sequences <= limits.maxNumSeqs);
  const examples = shown.map(([sequences, context]) => [
    `${sequences} × ${number(context)} tokens`,
    `${msOf(preset, sequences, context).toFixed(2)} ms`,
    `${(msOf(preset, sequences, context) / madeIn(limits.speculation)).toFixed(2)} ms`,
  ]);
  lines.push(...aligned([['a step that decodes', 'takes', 'a token'], ...examples], [1, 2]));
  return `${lines.join('\n')}\n`;
}

/** of a step in which so many sequences decode */
const msOf = ({ step, limits }: Preset, sequences: number, context: number): number =>
  stepMs(step, sequences, sequences * computedIn(limits.speculation), sequences * context, 0);
