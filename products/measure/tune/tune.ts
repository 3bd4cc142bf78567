/**
 * A study, from the first start to the verdict:
 *
 *   memory   the largest gpu_memory_utilization that starts and survives a full batch, by bisection
 *   present  is measured first; what it did scales the preset by which the space is ranked
 *   race     one start a setting, best foretold first, in blocks; under bounds of an open load also the highest rate
 *   confirm  the best against the present one, in turn, three starts each
 *
 * Everything that is measured is a line of the record, and is not measured again.
 */

import type { Preset } from '../../simulator/presets.ts';
import { meanInterval } from '../bench/bench-statistics.ts';
import { type Confirmation, confirm } from './confirm.ts';
import { type Entry, entryWords, goalValue, keptBy, meanOf, type Point } from './point.ts';
import { MOST_BLOCKS, mostFor, ruling, rungOf, search } from './race.ts';
import type { Lengths } from './rank.ts';
import { chosen, findsRate, hourlyOf, MOST_RACED, type Ranked, rank, rankOne, scaled } from './rank.ts';
import { inSession, raced, type Session, SettingFailed, type World } from './session.ts';
import { gridOf, isSame, MEMORY, SEQS, type Setting, type Study, settingWords, TOKENS } from './tune-file.ts';
import type { Failure } from './tuned-server.ts';

export interface Outcome {
  /** every setting that was foretold; empty without a preset */
  ranked: Ranked[];
  /** times of the preset were multiplied by it, so that it says of the present setting what was measured */
  scale: number | null;
  memory: { tried: { value: number; failure: Failure | null }[]; found: number | null } | null;
  entries: Entry[];
  present: Entry;
  /** null where nothing could be measured */
  best: Entry | null;
  /** null where the present setting is the best that was found */
  confirmation: Confirmation | null;
}

export async function tune(
  world: World,
  preset: Preset | null,
  planned: readonly Lengths[] | null,
): Promise<Outcome> {
  const { study, say } = world;
  const memory = await findMemory(world);
  const fixed: Setting = memory?.found == null ? {} : { [MEMORY]: memory.found };
  const grid = gridOf(study.space, [MEMORY]).map(setting => ({ ...study.present, ...setting, ...fixed }));

  say(`measures the present setting: ${settingWords(study.present)}`);
  const present = await measure(world, study.present, null);
  const { ranked, scale } = rankAfter(study, preset, present, planned, grid);
  const settings =
    ranked.length === 0 ? [study.present, ...others(grid, study.present)] : chosen(ranked, study.present);
  if (ranked.length > 0)
    say(
      `starts ${settings.length} of ${grid.length} settings, the best in virtual time first (preset × ${(scale ?? 1).toFixed(2)})`,
    );

  const entries = [present];
  let best = isCandidate(present) ? present : null;
  for (const setting of settings.slice(1)) {
    const entry = await measure(world, setting, best);
    entries.push(entry);
    if (isCandidate(entry) && isBetter(entry, best)) best = entry;
  }
  for (;;) {
    if (best === null || best === present)
      return { ranked, scale, memory, entries, present, best, confirmation: null };
    say(`confirms ${settingWords(best.setting)} against the present setting`);
    const confirmation = await confirm(world, best, present);
    if (confirmation !== null) return { ranked, scale, memory, entries, present, best, confirmation };
    // it failed at a later start: the next best one takes its place
    best.state = 'failed';
    best = entries
      .filter(isCandidate)
      .reduce<Entry | null>((top, one) => (isBetter(one, top) ? one : top), null);
  }
}

const isCandidate = ({ state, value }: Entry): boolean => state === 'measured' && value !== null;

function isBetter(a: Entry, b: Entry | null): boolean {
  if (b === null) return true;
  // rates are rungs of one ladder: what was kept at the same one is no better
  if (a.rate !== null && b.rate !== null) return a.rate > b.rate;
  return (a.value ?? 0) > (b.value ?? 0);
}

const others = (grid: readonly Setting[], present: Setting): Setting[] =>
  grid.filter(setting => !isSame(setting, present)).slice(0, MOST_RACED - 1);

/** The largest share of the memory at which the largest batch runs; more is never slower until a server dies of it. */
async function findMemory(world: World): Promise<Outcome['memory']> {
  const { study, say } = world;
  const values = [...((study.space[MEMORY] ?? []) as readonly number[])].sort((a, b) => a - b);
  if (values.length === 0) return null;
  const most = (name: string): Setting =>
    study.space[name] === undefined ? {} : { [name]: Math.max(...(study.space[name] as number[])) };
  const tried: { value: number; failure: Failure | null }[] = [];
  const survives = async (value: number): Promise<boolean> => {
    const setting = { ...study.present, ...most(SEQS), ...most(TOKENS), [MEMORY]: value };
    say(`${MEMORY} ${value}: does it start, and survive a full batch?`);
    try {
      await inSession(world, { phase: 'memory', setting, run: 1 }, session => session.block(1));
      tried.push({ value, failure: null });
      return true;
    } catch (error) {
      if (!(error instanceof SettingFailed)) throw error;
      tried.push({ value, failure: error.failure });
      return false;
    }
  };
  let [low, high] = [-1, values.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (await survives(values[middle] as number)) low = middle;
    else high = middle - 1;
  }
  const found = low < 0 ? null : (values[low] as number);
  say(found === null ? `no ${MEMORY} of the space survives: the present one is kept` : `${MEMORY}: ${found}`);
  return { tried, found };
}

/** One start: blocks at full load, until it is known how it lies to the best; then its rate. */
async function measure(world: World, setting: Setting, best: Entry | null): Promise<Entry> {
  const { study, say } = world;
  const entry: Entry = {
    setting,
    state: 'measured',
    failure: null,
    blocks: [],
    full: null,
    rates: [],
    rate: null,
    value: null,
  };
  try {
    await inSession(world, raced(setting), async session => {
      if (findsRate(study)) await measureRate(study, session, entry, best);
      else await measureFull(study, session, entry, best);
    });
  } catch (error) {
    if (!(error instanceof SettingFailed)) throw error;
    entry.state = 'failed';
    entry.failure = error.failure;
  }
  say(`${settingWords(setting)}: ${entryWords(study, entry)}`);
  return entry;
}

async function measureFull(study: Study, session: Session, entry: Entry, best: Entry | null): Promise<void> {
  const hourly = hourlyOf(study, entry.setting);
  for (let number = 1; number <= MOST_BLOCKS; number++) {
    entry.blocks.push(await session.block(number));
    const values = entry.blocks.map(point => goalValue(point, study.goal, hourly));
    entry.full = meanInterval(values);
    entry.value = meanOf(values);
    const ruled = ruling(values, best?.full ?? null);
    const bounds = keptBy(entry.blocks, study.slo);
    if (ruled === 'more' && !(number >= 3 && !bounds.kept && bounds.sure)) continue;
    if (!bounds.kept) entry.state = 'broken';
    else if (ruled === 'behind') entry.state = 'behind';
    return;
  }
}

/** What it takes at full load is the highest rate that it can have; where the best one keeps more, it is behind. */
async function measureRate(study: Study, session: Session, entry: Entry, best: Entry | null): Promise<void> {
  const hourly = hourlyOf(study, entry.setting);
  const level = best?.rate == null ? null : { value: best.rate, low: best.rate, high: best.rate };
  for (let number = 1; number <= MOST_BLOCKS; number++) {
    entry.blocks.push(await session.block(number));
    const full = entry.blocks.map(({ requests_per_s }) => requests_per_s);
    entry.full = meanInterval(full);
    const ruled = ruling(full, level);
    if (ruled === 'behind') {
      entry.state = 'behind';
      return;
    }
    if (ruled !== 'more') break;
  }
  const most = mostFor(meanOf(entry.blocks.map(({ requests_per_s }) => requests_per_s)));
  const searching = search(most, level === null ? null : rungOf.below(level.value));
  let step = searching.next();
  while (!step.done) {
    const rate = rungOf.rate(step.value);
    const points = await session.rate(rate);
    const { kept } = keptBy(points, study.slo);
    entry.rates.push({ rate, kept, points });
    step = searching.next(kept);
  }
  const floor = level === null ? Number.NEGATIVE_INFINITY : rungOf.below(level.value);
  const points =
    step.value === null ? null : await verified(study, session, entry, { rung: step.value, floor });
  if (points === null) {
    entry.state = level === null ? 'broken' : 'behind';
    return;
  }
  entry.value = meanOf(points.map(point => goalValue(point, study.goal, hourly)));
}

/** Lower rungs are tried, where other arrivals break the bounds at the one that was found. */
const MOST_STEPS = 12;

/** The highest rung, from the one that was found down, whose bounds are kept with other arrivals, too; its points. */
async function verified(
  study: Study,
  session: Session,
  entry: Entry,
  { rung, floor }: { rung: number; floor: number },
): Promise<Point[] | null> {
  for (let at = rung; at > Math.max(floor, rung - MOST_STEPS); at--) {
    const rate = rungOf.rate(at);
    const points = await session.rate(rate, true);
    const { kept } = keptBy(points, study.slo);
    entry.rates = entry.rates.filter(each => each.rate !== rate).concat({ rate, kept, points });
    if (!kept) continue;
    entry.rate = rate;
    return points;
  }
  return null;
}

/** Lengths as they were at the present setting, and the preset scaled to what that setting did. */
function rankAfter(
  study: Study,
  preset: Preset | null,
  present: Entry,
  planned: readonly Lengths[] | null,
  grid: readonly Setting[],
): { ranked: Ranked[]; scale: number | null } {
  if (preset === null) return { ranked: [], scale: null };
  const seen = lengthsOf(present.blocks);
  const lengths = seen.length > 0 ? seen : planned;
  // without lengths nothing can be foretold: the order is that of the space
  if (lengths === null || lengths.length === 0) return { ranked: [], scale: null };
  const measured = meanOf(present.blocks.map(({ requests_per_s }) => requests_per_s));
  const told = rankOne(study, preset, lengths, study.present).capacity;
  const factor = measured > 0 && told > 0 ? told / measured : 1;
  const scale = Math.min(FARTHEST, Math.max(1 / FARTHEST, factor));
  return { ranked: rank(study, scaled(preset, scale), lengths, grid), scale };
}

/** A preset that is farther off is of another card. */
const FARTHEST = 8;

export function lengthsOf(points: readonly Point[]): Lengths[] {
  return points.flatMap(({ lengths, cached_share }) =>
    lengths.map(([prompt, output]) => ({ prompt, output, shared: Math.round(prompt * (cached_share ?? 0)) })),
  );
}
