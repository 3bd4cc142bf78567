/**
 * Made-up studies whose truth is known, and whose records are not independent: what a case is like is shared by its twins,
 * its orders, its samples and what befalls it. They enter where `fw report` has read a line, and go through all the rest.
 */
import type { Rung } from '../engine/core/item/item.ts';
import { seeded } from '../products/kit/permute.ts';
import type { Answered } from '../products/report/answers-said.ts';
import { type Collected, createCollector } from '../products/report/collect.ts';
import type { Asked } from '../products/report/report-names.ts';

export interface Design {
  cells: number;
  groups: number;
  /** names of each group in a cell */
  names: number;
  orders: number;
  samples: number;
  /** whether cells are named as twins; without, each case is of one group alone */
  twins: boolean;
  /** what the last group has more, on the scale of log odds */
  shift: number;
  /** of log odds: where the middle is */
  middle: number;
}

/** Standard deviations on the scale of log odds: of a case, of its reaction to an order, of one application of it. */
const CASE = 1.2;
const REACTION = 0.7;
const OWN = 0.7;
/** Of applications in all their orders, and of lines alone. */
const LOST = [0.04, 0.01] as const;
const MENDED = [0.06, 0.04] as const;
const AGAIN = [0.05, 0.05] as const;

const odds = (x: number): number => 1 / (1 + Math.exp(-x));

/** `asked`, and what `fw report` has of such a study after reading it. A second `run` asks the same again. */
export function studyOf(design: Design, seed: number, run = 0): Collected {
  const { cells, groups, names, orders, samples, twins, shift, middle } = design;
  const random = seeded(seed * 2654435761 + 1);
  const answers = seeded(seed * 40503 + 7919 * (run + 1));
  const asked: Asked = {
    groups: ['group'],
    outcome: 'decision',
    approve: 'yes',
    twins: twins ? ['cell'] : [],
    risk: 'risk',
  };
  const { add, collected } = createCollector(asked, new Set<Rung>(['clean', 'repaired']));
  const befalls = ([whole, line]: readonly [number, number], draw: () => number): (() => boolean) => {
    const all = draw() < whole;
    return () => draw() < line || all;
  };
  for (let cell = 0; cell < cells; cell++) {
    let of = caseOf(random, orders);
    for (let group = 0; group < groups; group++)
      for (let name = 0; name < names; name++) {
        if (!twins) of = caseOf(random, orders);
        const own = OWN * normal(random);
        const isLost = befalls(LOST, random);
        const isMended = befalls(MENDED, random);
        const isAgain = befalls(AGAIN, random);
        for (let order = 0; order < orders; order++)
          for (let sample = 1; sample <= samples; sample++) {
            const level = middle + of.level + (of.reactions[order] as number) + own;
            const chance = odds(level + (group === groups - 1 ? shift : 0));
            const say = (): string => (answers() < chance ? 'yes' : 'no');
            const [lost, mended, again] = [isLost(), isMended(), isAgain()];
            const rate = Math.round(10 * (8 - level + answers())) / 10;
            const answer = (agent: string, decision: string): Answered => ({
              agent,
              output: lost ? undefined : { decision, rate },
              rung: lost ? 'failed' : mended ? 'repaired' : 'clean',
              attempts: again ? 2 : 1,
              ...{ allowed: null, shared: null, prompt: 1, completion: 1 },
            });
            const [first, last] = [say(), say()];
            const application = `${cell}-${group}-${name}`;
            add({
              id: `${application}/${order}#${sample}`,
              applicant: application,
              sample: samples > 1 ? sample : 0,
              order: orders > 1 ? `order ${order}` : '',
              groups: [`group ${group}`],
              cell: twins ? `${cell}` : null,
              outcome: lost ? null : last,
              approved: lost ? null : last === 'yes',
              ...{
                allowed: null,
                isByName: false,
                isOwnFailure: false,
                noOutcome: lost ? '' : null,
                twins: [],
              },
              left: lost ? 'no-valid-answer' : null,
              rung: lost ? 'failed' : mended ? 'repaired' : 'clean',
              risk: of.risk,
              decision: lost ? undefined : { decision: last, rate },
              answers: [answer('first', first), answer('last', last)],
              timestamp: null,
            });
          }
      }
  }
  return collected;
}

function caseOf(random: () => number, orders: number): { level: number; reactions: number[]; risk: number } {
  const level = CASE * normal(random);
  return {
    level,
    reactions: Array.from({ length: orders }, () => REACTION * normal(random)),
    risk: random(),
  };
}

/** Box and Muller. */
const normal = (random: () => number): number =>
  Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());

/** The mean of `f` over a normal distribution with this standard deviation, by the trapezoidal rule. */
function over(deviation: number, f: (x: number) => number): number {
  let [sum, all] = [0, 0];
  for (let z = -6; z <= 6.001; z += 0.1) {
    const weight = Math.exp((-z * z) / 2);
    all += weight;
    sum += weight * f(deviation * z);
  }
  return sum / all;
}

/** What the figures of a page are of all such studies: what their intervals should hold. */
export function truthOf({ middle, shift, orders, groups }: Design) {
  const differing = (p: number): number => 2 * p * (1 - p);
  const all = Math.hypot(CASE, REACTION, OWN);
  const rate = over(all, x => odds(middle + x));
  const shifted = over(all, x => odds(middle + shift + x));
  const own = (x: number, more = 0): number => over(OWN, y => odds(middle + more + x + y));
  const flips = over(Math.hypot(CASE, REACTION), x => differing(own(x)));
  const shiftedFlips = over(Math.hypot(CASE, REACTION), x => {
    const [p, q] = [own(x), own(x, shift)];
    return p * (1 - q) + q * (1 - p);
  });
  const sameOf = (more: number): number =>
    over(Math.hypot(CASE, OWN), x => {
      const p = over(REACTION, y => odds(middle + more + x + y));
      return p ** orders + (1 - p) ** orders;
    });
  const noiseOf = (more: number): number => over(all, x => differing(odds(middle + more + x)));
  const mean = (base: number, last: number): number => (base * (groups - 1) + last) / groups;
  const level = mean(rate, shifted);
  const noise = mean(noiseOf(0), noiseOf(shift));
  const chance = level * level + (1 - level) ** 2;
  return {
    ...{ rate, shifted, flips, shiftedFlips, level, noise },
    same: mean(sameOf(0), sameOf(shift)),
    kappa: (1 - noise - chance) / (1 - chance),
    trusted: (1 - LOST[0]) * (1 - LOST[1]),
  };
}
