/**
 * What a person is told of workers while a run or a server waits for them: who comes and goes, and what to do where nobody
 * does.
 */
import { counted, number } from '../../engine/core/item/wording.ts';
import { visible } from '../../engine/core/json/visible.ts';
import type { DeskStats } from './desk-stats.ts';
import { type KnownWorker, mayTake } from './known-workers.ts';

/** ms without a worker after which it is said, and ms until it is said again */
const PATIENCE = 10_000;
const AGAIN = 10 * 60_000;
/** workers that come and go are named so often in that time: of a thousand nobody wants to read */
const MOST = 40;
/** … and in the sum at the end */
const FEW = 8;

export interface News {
  /** What there is to say now; asked once a second or so. `now` in ms since 1970. */
  look(stats: DeskStats, now: number): string[];
}

/** `isAwaited`: a worker is wanted before there is any work. */
export function createNews(how: string, isAwaited = false): News {
  const known = new Map<string, string>();
  let told = 0;
  let toldSince = Number.NEGATIVE_INFINITY;
  let idleSince: number | null = null;
  let nextWord = 0;

  function comeAndGo(here: readonly KnownWorker[], now: number): string[] {
    const lines: string[] = [];
    for (const one of here)
      if (!known.has(one.worker)) lines.push(`worker ${nameOf(one)} is here: ${placesOf(one)}`);
    for (const [worker, name] of known)
      if (!here.some(one => one.worker === worker)) lines.push(`worker ${name} has gone`);
    known.clear();
    for (const one of here) known.set(one.worker, nameOf(one));
    if (now - toldSince >= AGAIN) {
      told = 0;
      toldSince = now;
    }
    const heard = lines.slice(0, Math.max(0, MOST - told));
    told += lines.length;
    if (heard.length < lines.length && told - lines.length < MOST)
      heard.push('many workers come and go: for ten minutes no more are named; the metrics count them');
    return heard;
  }

  return {
    look({ here, works, isQueueUp }, now) {
      const lines = comeAndGo(here, now);
      const isServed = ({ models }: { models: readonly string[] }) => here.some(one => mayTake(one, models));
      const lacking = works.filter(work => work.done < work.lines && !isServed(work));
      const wanted = [...new Set(lacking.flatMap(({ models }) => models))];
      const isEarly = isAwaited && works.length === 0 && !isServed({ models: [] });
      if ((lacking.length === 0 && !isEarly) || !isQueueUp) idleSince = null;
      else {
        idleSince ??= now;
        if (now - idleSince >= PATIENCE && now >= nextWord) {
          nextWord = now + AGAIN;
          lines.push(here.length === 0 ? `no worker is here; start some: ${how}` : unserved(here, wanted));
        }
      }
      return lines;
    },
  };
}

/** Who has handed in how much, for the end. */
export interface HandedIn {
  note(stats: DeskStats): void;
  words(): string[];
}

export function createHandedIn(): HandedIn {
  const took = new Map<string, { name: string; lines: number }>();
  return {
    note({ workers }) {
      for (const one of workers) took.set(one.worker, { name: nameOf(one), lines: one.took });
    },
    words() {
      const each = [...took.values()].filter(({ lines }) => lines > 0).sort((a, b) => b.lines - a.lines);
      if (each.length === 0) return [];
      const sum = each.reduce((all, { lines }) => all + lines, 0);
      const named = each.slice(0, FEW).map(({ name, lines }) => `${name} ${number(lines)}`);
      const more = each.length > FEW ? [`${number(each.length - FEW)} more`] : [];
      return [
        `${counted(each.length, 'worker')} handed in ${counted(sum, 'line')}: ${[...named, ...more].join(', ')}`,
      ];
    },
  };
}

function unserved(alive: readonly KnownWorker[], wanted: readonly string[]): string {
  const all = new Set(alive.flatMap(({ models }) => models));
  const more = all.size > FEW ? [`${number(all.size - FEW)} more`] : [];
  const served = [...[...all].slice(0, FEW).map(visible), ...more].join(', ');
  return `expected a worker that serves ${wanted.map(visible).join(' and ')}, found none: ${counted(alive.length, 'worker')} with ${served || 'no model'}`;
}

const nameOf = ({ host, pid }: KnownWorker): string => `${visible(host)}/${pid}`;

function placesOf({ endpoints, models, places }: KnownWorker): string {
  const served = models.length === 0 ? 'no model yet' : visible(models.slice(0, 3).join(', '));
  return `${counted(endpoints.length, 'endpoint')}, ${counted(places, 'place')}, ${served}`;
}
