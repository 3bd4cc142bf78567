/**
 * fw plan --compare: a model on several cards, split in several ways: how many are needed, how long they take, and what
 * that costs; of a number of prompts, or of a rate of requests under bounds.
 */
import { usageError } from '../../../engine/core/item/failure.ts';
import { aligned, number, percent, timeWords } from '../../../engine/core/item/wording.ts';
import { durationOf, type OptionsOf } from '../../../engine/flow/options.ts';
import { type Goal, goalOf } from '../../kit/goal.ts';
import { type PresetGiven, presetGiven } from '../../simulator/preset-options.ts';
import { type Preset, type SERVER_OPTIONS, withServerOptions } from '../../simulator/presets.ts';
import { type Lengths, type LoadGiven, lengthsOf, runOne } from './load-plan.ts';
import type { LoadFigures } from './virtual-load.ts';

type ServerGiven = Partial<OptionsOf<typeof SERVER_OPTIONS>>;
const NO_FLAGS = {
  'max-num-seqs': undefined,
  'max-num-batched-tokens': undefined,
  'gpu-memory-utilization': undefined,
};

export interface Comparing {
  /** `8xh100-80g,a100-80g`: cards, and how many there are; a card alone may be there in any number */
  cards: string;
  /** `1,2,4` */
  tp: string | undefined;
  /** `h100-80g=2.5,a100-80g=1.3`: of a card and an hour */
  prices: readonly string[] | undefined;
  /** a deadline, `60h`; only with `items` */
  within: string | undefined;
  /** prompts that are to be answered; undefined: a rate is to be served */
  items: number | undefined;
  given: PresetGiven & LoadGiven & ServerGiven;
}

export interface Choice {
  card: string;
  preset: Preset;
  tp: number;
  servers: number;
  /** requests a second of a server, and how many are in flight then; of a rate the most that keeps the bounds */
  rate: number;
  concurrency: number | null;
  figures: LoadFigures;
  /** s; null of a rate, which has no end */
  time: number | null;
  gpuHours: number;
  /** null: nobody said what the card costs; of a rate for an hour */
  cost: number | null;
  /** nothing else is both quicker (or has fewer cards) and cheaper */
  isBest: boolean;
}

export interface Compared {
  choices: Choice[];
  /** what cannot be, and why */
  not: { card: string; tp: number; why: string }[];
}

/** Of a hundred requests so many keep the bounds. */
const GOOD = 0.99;
const MOST_IN_FLIGHT = 1_024;
/** Answers for each place of a closed loop. */
const ROUNDS = 4;

/** Exit 64 where the options do not say what is compared. */
export function compareCards(comparing: Comparing): Compared {
  const { given, items } = comparing;
  const goal = goalOf(given.goodput);
  const lengths = lengthsOf(given);
  const prices = pricesOf(comparing.prices);
  const rate = items === undefined ? rateOf(given.rate, goal) : null;
  const within = comparing.within === undefined ? null : durationOf(comparing.within, '--within') / 1000;
  const choices: Choice[] = [];
  const not: Compared['not'] = [];
  for (const { card, count } of cardsOf(comparing.cards))
    for (const tp of splitsOf(comparing.tp)) {
      try {
        const told = presetGiven({ ...given, preset: undefined, gpu: card, tp: String(tp) });
        if (told === undefined)
          throw usageError(
            'expected --model-config with --compare, found none: a model to compare cards for',
          );
        const preset = withServerOptions(told.preset, { ...NO_FLAGS, ...given });
        const found =
          rate === null ? bulk(preset, lengths, goal) : capacity(preset, lengths, goal as Goal, rate);
        if (found === null) {
          not.push({ card, tp, why: 'no load keeps the bounds for 99 of 100 requests' });
          continue;
        }
        const most = count === null ? Number.POSITIVE_INFINITY : Math.floor(count / tp);
        const servers = serversFor({ found, items, rate, within, most, isCounted: count !== null });
        if (servers < 1) {
          not.push({ card, tp, why: `${count} cards are fewer than a server has` });
          continue;
        }
        if (rate !== null && servers > most) {
          not.push({ card, tp, why: `${servers * tp} cards are needed, and there are ${count}` });
          continue;
        }
        const time = items === undefined ? null : items / (found.rate * servers);
        const gpuHours = servers * tp * ((time ?? 3600) / 3600);
        const price = prices.get(card);
        choices.push({
          ...{ card, preset, tp, servers, time, gpuHours, isBest: false },
          ...found,
          cost: price === undefined ? null : price * gpuHours,
        });
      } catch (error) {
        const { message } = error as Error;
        // a model that does not fit is an answer; all else is for whoever asked
        if (!/too few|attention heads/.test(message)) throw error;
        not.push({ card, tp, why: message });
      }
    }
  return { choices: marked(choices), not };
}

type Found = Pick<Choice, 'rate' | 'concurrency' | 'figures'>;

interface Needed {
  found: Found;
  items: number | undefined;
  rate: number | null;
  within: number | null;
  most: number;
  isCounted: boolean;
}

function serversFor({ found, items, rate, within, most, isCounted }: Needed): number {
  if (rate !== null) return Math.ceil(rate / found.rate);
  if (isCounted) return most;
  return within === null ? 1 : Math.ceil((items as number) / (found.rate * within));
}

/** The closed loop that gives most, of those that keep the bounds: without bounds the largest that the KV cache holds. */
function bulk(preset: Preset, lengths: Lengths, goal: Goal | null): Found | null {
  const { maxNumSeqs, kvTokens } = preset.limits;
  const most = Math.min(
    maxNumSeqs,
    MOST_IN_FLIGHT,
    Math.max(1, Math.floor(kvTokens / (lengths.input + lengths.output))),
  );
  const levels = [most];
  if (goal !== null) for (let level = most >> 1; level >= 1; level >>= 1) levels.push(level);
  for (const concurrency of levels) {
    const given = { requests: Math.max(ROUNDS * concurrency, 20) };
    const load = { kind: 'closed' as const, concurrency };
    const figures = runOne({ preset, servers: 1, lengths, load, given, goal });
    // the largest that is good enough: fewer in flight give less
    if (figures.good >= GOOD * figures.requests) return { rate: figures.steady, concurrency, figures };
  }
  return null;
}

/** The rate of one server that keeps the bounds, by halves, up to what is asked for. */
function capacity(preset: Preset, lengths: Lengths, goal: Goal, wanted: number): Found | null {
  const run = (rate: number): LoadFigures =>
    runOne({ preset, servers: 1, lengths, load: { kind: 'open', rate }, given: { duration: '120s' }, goal });
  let [low, high] = [0, wanted];
  let best: LoadFigures | null = null;
  for (let round = 0; round < 8; round++) {
    const rate = round === 0 ? wanted : (low + high) / 2;
    const figures = run(rate);
    if (figures.good >= GOOD * figures.requests) {
      best = figures;
      low = rate;
      if (round === 0) break;
    } else high = rate;
  }
  return best === null ? null : { rate: low, concurrency: null, figures: best };
}

/** By cost where it is known, else by cards and hours; and what nothing else beats in both. */
function marked(choices: readonly Choice[]): Choice[] {
  const spent = ({ cost, gpuHours }: Choice): number => cost ?? gpuHours;
  const slow = ({ time, servers, tp }: Choice): number => time ?? servers * tp;
  const isBest = (one: Choice): boolean =>
    !choices.some(
      other =>
        other !== one &&
        spent(other) <= spent(one) &&
        slow(other) <= slow(one) &&
        (spent(other) < spent(one) || slow(other) < slow(one)),
    );
  return choices.map(one => ({ ...one, isBest: isBest(one) })).sort((a, b) => spent(a) - spent(b));
}

function cardsOf(text: string): { card: string; count: number | null }[] {
  return text.split(',').map(part => {
    const [, count, card] = /^\s*(?:(\d{1,5})\s*[x×]\s*)?([a-z0-9-]{1,40})\s*$/i.exec(part) ?? [];
    if (card === undefined)
      throw usageError(
        `--compare: expected cards, such as h100-80g,16xa100-80g, found "${part.slice(0, 80)}"`,
      );
    return { card: card.toLowerCase(), count: count === undefined ? null : Number(count) };
  });
}

function splitsOf(text = '1'): number[] {
  return text.split(',').map(part => {
    if (/^\s*\d{1,2}\s*$/.test(part) && Number(part) >= 1 && Number(part) <= 16) return Number(part);
    throw usageError(
      `--tp: expected whole numbers from 1 to 16, such as 1,2,4, found "${part.slice(0, 80)}"`,
    );
  });
}

function pricesOf(texts: readonly string[] | undefined): Map<string, number> {
  const prices = (texts ?? [])
    .flatMap(text => text.split(','))
    .map((part): [string, number] => {
      const [, card, price] = /^\s*([a-z0-9-]{1,40})=(\d{1,6}(?:\.\d{1,4})?)\s*$/i.exec(part) ?? [];
      if (card === undefined)
        throw usageError(
          `--price: expected CARD=PRICE of a card and an hour, such as h100-80g=2.5, found "${part.slice(0, 80)}"`,
        );
      return [card.toLowerCase(), Number(price)];
    });
  return new Map(prices);
}

function rateOf(text: string | undefined, goal: Goal | null): number {
  if (text === undefined)
    throw usageError(
      'expected --items, how many prompts, or --rate, requests a second, with --compare, found neither',
    );
  if (goal === null)
    throw usageError(
      'expected --goodput with --compare and --rate, found none: the bounds that decide how many cards are enough',
    );
  const rate = Number(text);
  if (/^\d{1,6}(?:\.\d{1,6})?$/.test(text) && rate > 0) return rate;
  throw usageError(`--rate: expected one number above 0 with --compare, found "${text}"`);
}

export function renderCompared({ choices, not }: Compared, { items, given, within }: Comparing): string {
  const { input, output } = lengthsOf(given);
  const task =
    items === undefined
      ? `${given.rate} requests/s within ${given.goodput?.join(',')}`
      : `${number(items)} prompts`;
  const rows = choices.map(
    ({ card, tp, servers, rate, concurrency, figures, time, gpuHours, cost, isBest, preset }) => {
      const off = items === undefined ? preset.error.midLoad : preset.error.nearSaturation;
      return [
        isBest ? '*' : '',
        card,
        String(tp),
        String(servers * tp),
        String(servers),
        rate.toFixed(2),
        number(Math.round(rate * output)),
        concurrency === null ? '–' : String(concurrency),
        figures.ttft.p50.toFixed(0),
        figures.tpot.p50.toFixed(1),
        time === null ? '–' : timeWords(1000 * time),
        time === null
          ? '–'
          : `${timeWords((1000 * time) / (1 + off))} to ${timeWords((1000 * time) / (1 - off))}`,
        gpuHours.toFixed(1),
        cost === null ? '–' : cost.toFixed(2),
      ];
    },
  );
  const head = [
    '',
    'card',
    'tp',
    'cards',
    'servers',
    'req/s each',
    'tok/s out',
    'in flight',
    'TTFT P50',
    'TPOT P50',
    'time',
    'with its error',
    'GPU hours',
    items === undefined ? 'cost/h' : 'cost',
  ];
  const late =
    within === undefined
      ? []
      : choices
          .filter(
            ({ time, preset }) =>
              (time as number) / (1 - preset.error.nearSaturation) > durationOf(within, '--within') / 1000,
          )
          .map(
            ({ card, tp }) =>
              `${card} with --tp ${tp} may be later than ${within} within its error of ±${percent(choices[0]?.preset.error.nearSaturation ?? 0)}`,
          );
  return `${[
    `${task} of ${number(input)} tokens in and ${number(output)} out, ${given['model-config']}; nothing was measured`,
    '',
    ...aligned([head, ...rows], [2, 3, 4, 5, 6, 7, 8, 9, 12, 13]),
    '',
    '* nothing else is both quicker and cheaper',
    ...late,
    ...not.map(({ card, tp, why }) => `${card} with --tp ${tp}: ${why}`),
  ].join('\n')}\n`;
}

export function comparedJson({ choices, not }: Compared) {
  return {
    choices: choices.map(
      ({ card, tp, servers, rate, concurrency, time, gpuHours, cost, isBest, preset, figures }) => ({
        ...{ card, tp, cards: servers * tp, servers, requests_per_second: rate, concurrency },
        ...{ time_s: time, gpu_hours: gpuHours, cost, best: isBest, error: preset.error },
        ...{ ttft_ms: figures.ttft, tpot_ms: figures.tpot, e2el_ms: figures.e2el },
      }),
    ),
    not,
  };
}
