/** The pictures of the page: what each setting did at full load, and latency against the rate. */
import { curveChart, type Dot, dotChart } from '../../kit/chart.ts';
import { figure, html, joined, short, type Text, table } from '../../kit/html.ts';
import { figureOf } from './point.ts';
import { findsRate } from './rank.ts';
import { namesOf, valuesOf } from './tune-file.ts';
import type { TuneResult } from './tune-result.ts';

export function charts(result: TuneResult): Text {
  const parts = [fullLoad(result), ...(findsRate(result.study) ? [byRate(result)] : [])].filter(
    part => part !== '',
  );
  return parts.length === 0 ? '' : html`<h2>Pictures</h2>\n${joined(parts, '\n')}`;
}

function fullLoad({ settings, study }: TuneResult): Text {
  const measured = settings.flatMap(({ setting, full, state }) =>
    full === null ? [] : [{ setting, full, state }],
  );
  if (measured.length === 0) return '';
  const names = namesOf(study.present);
  const title = `At full load, by ${names}`;
  const unit = findsRate(study) ? 'requests/s' : study.unit;
  const rows: Dot[] = measured.map(({ setting, full, state }) => ({
    label: valuesOf(setting),
    ...full,
    faint: state !== 'measured',
  }));
  const drawn = dotChart({ title, axis: unit, rows, show: figureOf, from: 0, to: 0 });
  const behind = table(
    [short(namesOf(study.present)), short(unit), 'low', 'high'],
    measured.map(({ setting, full }) => [
      short(valuesOf(setting)),
      figureOf(full.value),
      figureOf(full.low),
      figureOf(full.high),
    ]),
  );
  return figure(
    short(title),
    drawn,
    behind,
    'The line is the 95 % interval over blocks. Pale: stopped early, or the bounds are not kept.',
  );
}

const MOST_CURVES = 6;

function byRate({ settings, study }: TuneResult): Text {
  const [bound] = study.slo;
  if (bound === undefined) return '';
  const key = `p${bound.percentile}` as 'p99';
  const curves = settings
    .map(({ setting, rates }) => ({
      label: valuesOf(setting),
      points: rates
        .map(({ rate, points }) => [rate, points[0]?.[`${bound.metric}_ms`][key] ?? Number.NaN] as const)
        .filter(([, ms]) => Number.isFinite(ms))
        .sort(([a], [b]) => a - b),
    }))
    .filter(({ points }) => points.length > 0);
  if (!curves.some(({ points }) => points.length > 1)) return '';
  const title = `${bound.metric.toUpperCase()} at the ${bound.percentile}th percentile against the rate; the bound is ${bound.ms} ms`;
  const all = curves.flatMap(({ points }) => points.map(([, ms]) => ms));
  const drawn = curveChart({
    title,
    x: 'requests/s',
    y: 'ms',
    curves: curves.slice(0, MOST_CURVES),
    showX: figureOf,
    showY: figureOf,
    from: 0,
    to: Math.max(bound.ms, ...all),
    dots: true,
  });
  const behind = table(
    [short(namesOf(study.present)), 'requests/s', 'ms', 'kept'],
    settings.flatMap(({ setting, rates }) =>
      rates.map(({ rate, kept, points }) => [
        short(valuesOf(setting)),
        figureOf(rate),
        figureOf(points[0]?.[`${bound.metric}_ms`][key]),
        kept ? 'yes' : 'no',
      ]),
    ),
  );
  return figure(
    short(title),
    drawn,
    behind,
    curves.length > MOST_CURVES ? `The first ${MOST_CURVES} settings.` : '',
  );
}
