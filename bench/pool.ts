/**
 * The pool on simulated servers in virtual time, against what was to be had of them and against what batch scripts do.
 * The same numbers on every machine, in about a minute.
 *
 *   make bench-pool
 */
import type { VirtualClock } from '../products/simulator/virtual-clock.ts';
import type { VirtualServer } from '../products/simulator/virtual-servers.ts';
import { type Figure, table, writeFigures } from './page.ts';
import { PRESET, type Ran, type Run, run } from './pool/run.ts';

const ITEMS = 5_000;
const EQUAL = [1, 1, 1];
/** ms */
const MINUTE = 60_000;
const FLAP = 5_000;

type Events = NonNullable<Run['events']>;

const slows: Events = (clock, servers) => void clock.after(MINUTE, () => third(servers).setSpeed(1 / 3));
const dies: Events = (clock, servers) => {
  clock.after(MINUTE, () => third(servers).kill());
  clock.after(2 * MINUTE, () => third(servers).start());
};
const flaps: Events = (clock, servers) => {
  const down = (): void => {
    third(servers).kill();
    clock.after(FLAP, up);
  };
  const up = (): void => {
    third(servers).start();
    clock.after(FLAP, down);
  };
  clock.after(FLAP, down);
};

function third(servers: readonly VirtualServer[]): VirtualServer {
  return servers[2] as VirtualServer;
}

interface Scene {
  name: string;
  speeds: number[];
  events?: (clock: VirtualClock, servers: readonly VirtualServer[]) => void;
  /** server-seconds of a healthy server that were there in the first `seconds` */
  capacity: (seconds: number) => number;
  of: string;
}

const SCENES: Scene[] = [
  { name: 'three equal', speeds: EQUAL, capacity: seconds => 3 * seconds, of: '3 servers' },
  { name: 'unequal, 1 : 2 : 4', speeds: [1, 2, 4], capacity: seconds => 7 * seconds, of: 'all' },
  {
    name: 'one 3 × slower after a minute',
    speeds: EQUAL,
    events: slows,
    capacity: seconds => 3 * 60 + (2 + 1 / 3) * (seconds - 60),
    of: 'what was left',
  },
  {
    name: 'one dead from minute 1 to 2',
    speeds: EQUAL,
    events: dies,
    capacity: seconds => 3 * seconds - 60,
    of: 'what was left',
  },
  {
    name: 'one flapping, 5 s up, 5 s down',
    speeds: EQUAL,
    events: flaps,
    capacity: seconds => 2 * seconds,
    of: 'the two others',
  },
];

const alone = await run({ items: Math.round(ITEMS / 3), speeds: [1], by: 'pool' });
/** answers a second of one server that has enough to do */
const rate = alone.answersThen / alone.full;

const share = (ran: Ran, capacity: Scene['capacity']): string => {
  const full = ran.answersThen / (rate * capacity(ran.full));
  const whole = ran.answers / (rate * capacity(ran.makespan));
  const failed = ran.failedItems > 0 ? `, ${ran.failedItems} items lost` : '';
  return `${percent(full)} (${percent(whole)}${failed})`;
};
const percent = (value: number): string => `${(100 * value).toFixed(1)} %`;

const rows = [['servers', 'of', 'pool', 'extra tries', 'by turns', 'fixed shares']];
for (const { name, speeds, events, capacity, of } of SCENES) {
  const by = async (how: Run['by']) => run({ items: ITEMS, speeds, by: how, events });
  const own = await by('pool');
  const scripts = [await by('turns'), await by('shares')];
  rows.push([
    name,
    of,
    share(own, capacity),
    percent(own.extra / own.answers),
    ...scripts.map(ran => share(ran, capacity)),
  ]);
  console.error(rows.at(-1)?.join(' | '));
}

const sweep = [['limit by hand, three equal', 'makespan', 'of the best']];
const limits = [64, 128, 192, 256, 320, 384, 512, 1024];
const tried: [string, Ran][] = [];
for (const limit of limits)
  tried.push([String(limit), await run({ items: ITEMS, speeds: EQUAL, by: { limit } })]);
tried.push(['found', await run({ items: ITEMS, speeds: EQUAL, by: 'pool' })]);
tried.push([
  'found without /metrics',
  await run({ items: ITEMS, speeds: EQUAL, by: 'pool', metrics: false }),
]);
const best = Math.min(...tried.slice(0, limits.length).map(([, { makespan }]) => makespan));
for (const [name, { makespan }] of tried)
  sweep.push([name, `${makespan.toFixed(0)} s`, percent(best / makespan)]);

const figures: Figure[] = [
  ...rows
    .slice(1)
    .map(([name, of, own]): Figure => [`pool, ${name}: answers, as a share of ${of}`, own as string]),
  ...sweep
    .slice(-2)
    .map(
      ([name, , share]): Figure => [`pool, limit ${name}: share of the best set by hand`, share as string],
    ),
];
writeFigures('pool', figures, [
  '## The pool, in virtual time',
  '',
  `${ITEMS.toLocaleString('en')} chains of five calls on simulated servers (preset ${PRESET.name}, whose own error is ±15 % to ±25 %; ratios do not depend on it), nothing set by hand.`,
  'A share is answers over what one such server gives alone, times the servers that were there; first while there were new items to begin, in brackets to the last answer.',
  '"By turns" and "fixed shares" are what batch scripts do: 256 items in flight a server, five tries a call.',
  '',
  ...table(rows),
  '',
  ...table(sweep),
]);
