/** fw plan --compare as a page: what each choice takes and costs, and the curve of those that nothing beats. */
import { number } from '../../../engine/core/item/wording.ts';
import { type Curve, curveChart } from '../../kit/chart.ts';
import { decimal, figure, html, joined, short, table } from '../../kit/html.ts';
import { page } from '../../kit/page.ts';
import { draftsWords } from '../server-words.ts';
import type { Choice, Compared, Comparing } from './compare-cards.ts';
import { lasting } from './compare-words.ts';
import { lengthsOf } from './load-plan.ts';

/** A chart has so many colours, of which the first is the curve's. */
const MOST_CARDS = 5;

export function comparePage({ choices, not }: Compared, { items, given }: Comparing): string {
  const { input, output } = lengthsOf(given);
  const model = short(given['model-config'] ?? '');
  const task = items === undefined ? `${given.rate} requests a second` : `${number(items)} prompts`;
  const isPriced = choices.every(({ cost }) => cost !== null);
  const slow = ({ time, servers, tp }: Choice): number => (time === null ? servers * tp : time / 3600);
  const spent = ({ cost, gpuHours }: Choice): number => (isPriced ? (cost as number) : gpuHours);
  const curveOf = (label: string, those: readonly Choice[]): Curve => ({
    label,
    points: those.map((one): [number, number] => [slow(one), spent(one)]).sort(([a], [b]) => a - b),
  });
  const cards = [...new Set(choices.map(({ card }) => card))].slice(0, MOST_CARDS);
  const spentWords = isPriced ? (items === undefined ? 'cost an hour' : 'cost') : 'GPU hours';
  const drawn = curveChart({
    title: `${spentWords} against ${items === undefined ? 'cards' : 'time'}`,
    x: items === undefined ? 'cards' : 'hours',
    y: spentWords,
    curves: [
      curveOf(
        'nothing beats these',
        choices.filter(({ isBest }) => isBest),
      ),
      ...cards.map(card =>
        curveOf(
          card,
          choices.filter(one => one.card === card),
        ),
      ),
    ],
    showX: value => decimal(value, 1),
    showY: value => decimal(value, 0),
    from: 0,
    to: Math.max(...choices.map(spent)),
    dots: true,
  });
  const rows = choices.map(choice => {
    const { card, tp, servers, rate, time, gpuHours, cost, isBest, figures } = choice;
    return [
      `${isBest ? '* ' : ''}${card}, tp ${tp}`,
      String(servers * tp),
      decimal(rate, 2),
      decimal(figures.ttft.p50, 0),
      decimal(figures.tpot.p50, 1),
      time === null ? '–' : lasting(time),
      decimal(gpuHours, 1),
      cost === null ? '–' : decimal(cost, 2),
    ];
  });
  const head = [
    'card',
    'cards',
    'req/s of a server',
    'TTFT P50 ms',
    'TPOT P50 ms',
    'time',
    'GPU hours',
    'cost',
  ];
  const drafts = draftsWords(choices[0]?.preset);
  return page({
    title: `Cards for ${model}`,
    header: html`<h1>Cards for ${model}</h1><p>${task} of ${number(input)} tokens in and ${number(output)} out. Foretold in virtual time; nothing was measured${drafts && `; ${drafts}`}.</p>`,
    main: html`${[
      choices.length === 0
        ? html`<p>No card of these can do it.</p>`
        : figure(`${spentWords} against ${items === undefined ? 'cards' : 'time'}`, drawn, table(head, rows)),
      table(head, rows),
      html`<p>* nothing else is both quicker and cheaper. Each time is ±${Math.round(100 * (choices[0]?.preset.error.nearSaturation ?? 0.25))} %.</p>`,
      joined(
        not.map(({ card, tp, why }) => html`<p class="dim">${card} with tp ${tp}: ${short(why, 400)}</p>`),
      ),
    ]}`,
  });
}
