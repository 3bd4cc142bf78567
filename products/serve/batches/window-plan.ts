/**
 * When batches that are open will be done, and how the batches of an owner share what is his so that as many windows as can
 * be are kept. A plan looks at the work that is there, as a fluid: owners get equal parts at any time, and each gives his to
 * his batches by their weights.
 *
 * As long as the usual weights keep each window that can be kept, they stay: a small batch is not behind a large one. Where
 * they would not, slack decides: the first deadlines come first, and whoever makes others late is put back, the largest first
 * (Moore 1968, Hodgson: that misses the fewest). None gets nothing: what is not first shares a twentieth.
 */

export interface OpenWork {
  id: string;
  owner: string;
  /** its part beside other batches of the owner, where nothing is urgent; above 0 */
  weight: number;
  /** lines that have not come back, as many of a usual size */
  left: number;
  /** s until its window is over; below 0 once it is */
  deadline: number;
}

export interface Planned {
  /** s until it is done; it is not asked whether its window is over before that */
  end: number;
  /** its part now, in the unit of `OpenWork.weight` */
  weight: number;
  /** it goes before all others of its owner */
  isFirst: boolean;
}

/** What batches that are not first have of their owner's part. */
const REST = 0.05;
/** s, as a share of the time until a deadline: less room than this is not trusted, since speeds change. */
const MARGIN = 0.1;

/** All of `works` are done by the same servers, at `speed` usual lines a second; above 0. */
export function planOf(works: readonly OpenWork[], speed: number): Map<string, Planned> {
  const owners = new Map<string, OpenWork[]>();
  for (const work of works) {
    const own = owners.get(work.owner);
    if (own === undefined) owners.set(work.owner, [work]);
    else own.push(work);
  }
  // a batch takes nothing of others any more once its window is over
  const sums = new Map(
    [...owners].map(([owner, own]) => [
      owner,
      own.reduce((sum, { left, deadline }) => sum + Math.min(left, speed * Math.max(0, deadline)), 0),
    ]),
  );
  const givenAt = sumOfLeast([...sums.values()]);
  const planned = new Map<string, Planned>();
  for (const [owner, own] of owners) {
    const most = sums.get(owner) as number;
    // while this owner gets so much, each other one gets as much, or all that it wants
    const timeOf = (got: number): number => (got + givenAt(got) - Math.min(got, most)) / speed;
    for (const [id, one] of planOfOwner(own, timeOf)) planned.set(id, one);
  }
  return planned;
}

/** The sum over all of `wanted` of each, or of `got` where that is less; asked often, of many. */
function sumOfLeast(wanted: readonly number[]): (got: number) => number {
  const all = [...wanted].sort((a, b) => a - b);
  const sums = [0];
  for (const one of all) sums.push((sums.at(-1) as number) + one);
  return got => {
    let [from, to] = [0, all.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if ((all[middle] as number) <= got) from = middle + 1;
      else to = middle;
    }
    return (sums[from] as number) + got * (all.length - from);
  };
}

type TimeOf = (got: number) => number;

function planOfOwner(works: readonly OpenWork[], timeOf: TimeOf): Map<string, Planned> {
  const usual = usually(works, timeOf);
  const { kept, late } = sorted(works, timeOf);
  const isKept = ({ id, deadline }: OpenWork): boolean =>
    (usual.get(id) as Planned).end <= (1 - MARGIN) * deadline;
  return kept.every(isKept) ? usual : bySlack(kept, late, timeOf);
}

/** By their weights: all begin at once, and one that is done leaves its part to the others. */
function usually(works: readonly OpenWork[], timeOf: TimeOf): Map<string, Planned> {
  const turnsOf = ({ left, weight }: OpenWork): number => left / weight;
  const inOrder = [...works].sort((a, b) => turnsOf(a) - turnsOf(b));
  // of each and all behind it, added up from the end: what was taken off a sum would be gone by rounding
  const weights = inOrder.map(({ weight }) => weight);
  for (let at = weights.length - 2; at >= 0; at--)
    weights[at] = (weights[at] as number) + (weights[at + 1] as number);
  let [got, turns] = [0, 0];
  const ends = new Map<string, Planned>();
  for (const [at, work] of inOrder.entries()) {
    got += (turnsOf(work) - turns) * (weights[at] as number);
    turns = turnsOf(work);
    ends.set(work.id, { end: timeOf(got), weight: work.weight, isFirst: false });
  }
  return ends;
}

/** Those whose windows can be kept together, the first deadline first; and those that would cost more windows than their own. */
function sorted(
  works: readonly OpenWork[],
  timeOf: TimeOf,
): { kept: readonly OpenWork[]; late: readonly OpenWork[] } {
  const byDeadline = [...works].sort((a, b) => a.deadline - b.deadline || (a.id < b.id ? -1 : 1));
  const [kept, late] = [new Set<OpenWork>(), new Set<OpenWork>()];
  let sum = 0;
  for (const work of byDeadline) {
    kept.add(work);
    sum += work.left;
    if (timeOf(sum / (1 - REST)) <= work.deadline) continue;
    const largest = [...kept].reduce((most, one) => (one.left > most.left ? one : most));
    kept.delete(largest);
    late.add(largest);
    sum -= largest.left;
  }
  return { kept: [...kept], late: [...late] };
}

/** The first has its part alone, but for the rest that all others share. */
function bySlack(kept: readonly OpenWork[], late: readonly OpenWork[], timeOf: TimeOf): Map<string, Planned> {
  const works = [...kept, ...late.toSorted((a, b) => a.deadline - b.deadline)];
  const weights = works.reduce((sum, { weight }) => sum + weight, 0);
  const all = works.reduce((sum, { left }) => sum + left, 0);
  const ends = new Map<string, Planned>();
  let got = 0;
  for (const [at, { id, left }] of works.entries()) {
    got += left;
    const part = at === 0 ? 1 - REST : REST / (works.length - 1);
    const atMost = at < kept.length ? Math.min(all, got / (1 - REST)) : got;
    const weight = weights * (works.length === 1 ? 1 : part);
    ends.set(id, { end: timeOf(atMost), weight, isFirst: at === 0 && kept.length > 0 });
  }
  return ends;
}
