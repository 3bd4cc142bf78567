/**
 * What a person sees while a run asks: bars on a terminal, a plain line every ten seconds in a log, a line when it
 * makes no progress. On stderr, never on stdout, and only for stages that ask: the others are over before anyone looks.
 */
import { fstatSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { takeLock } from '../../asking/ledger/lock.ts';
import { drawBars } from './bars.ts';
import { closingLines, watchRoom } from './closing.ts';
import {
  countItems,
  createLook,
  createNews,
  doneOf,
  type Facts,
  type Progress,
  type Watched,
} from './run-facts.ts';
import { factsLine } from './run-words.ts';
import { sumOf } from './servers.ts';
import { createStallWatch, type RunState } from './stall.ts';

const STDERR = 2;
/** The first line comes soon, so that a person sees life; ms. */
const FIRST_LINE = 3_000;
const LINE_EVERY = 10_000;
const LOOK_EVERY = 1_000;
const ROOM_EVERY = 100;
const RESOLUTION = 50;

export function startProgress({ label, account, pool, row, tools, toStdout, say }: Watched): Progress {
  const total = countItems(row, tools);
  const look = createLook(account, pool, total.items);
  let facts = look(performance.now());
  const begun = performance.eventLoopUtilization();
  const delays = monitorEventLoopDelay({ resolution: RESOLUTION });
  delays.enable();
  let lookedAt = performance.now();
  const stalled = createStallWatch(state());
  const news = createNews(account);
  const room = watchRoom(account, pool);
  const roomWatch = setInterval(() => room.look(performance.now()), ROOM_EVERY).unref();
  const watch = setInterval(() => {
    facts = look(performance.now());
    for (const words of news()) say(words);
    const words = stalled(state());
    // who waits for others learns from them what holds them up
    if (words !== null && pool.stats().elsewhere === undefined) say(words);
  }, LOOK_EVERY).unref();
  const isFree = process.stderr.isTTY && !(toStdout && process.stdout.isTTY);
  const release = isFree ? ownTerminal() : null;
  const shown = release === null ? drawLines(say, () => facts) : drawBars(label, process.stderr, () => facts);

  function state(): RunState {
    const { answered, replayed, failed, waiting, ledger, endpoints } = pool.stats();
    const { user, system } = process.cpuUsage();
    const now = performance.now();
    // the histogram has nothing of a delay that is over when its own timer has not run since the reset
    const lag = Math.max(0, delays.max / 1e6 - RESOLUTION, now - lookedAt - LOOK_EVERY);
    delays.reset();
    lookedAt = now;
    return {
      now,
      finished: answered + (replayed ?? 0) + sumOf(Object.values(failed), times => times) + doneOf(account),
      blockedSince: account.times.blockedSince,
      items: account.read - doneOf(account) - account.aside,
      waiting,
      ledger,
      cpu: (user + system) / 1000,
      lag,
      endpoints,
    };
  }

  return {
    get facts() {
      return facts;
    },
    stop() {
      clearInterval(watch);
      clearInterval(roomWatch);
      delays.disable();
      shown.stop();
      release?.();
    },
    closing: () => {
      const now = performance.now();
      room.look(now);
      const stats = pool.stats();
      const missed = total.missed(account);
      const over = missed === null ? [] : [missed];
      if (stats.elsewhere) return [...stats.elsewhere.told, ...over];
      const lines = closingLines({
        room: room.room(),
        stats,
        times: account.times,
        beginnings: account.beginnings,
        now,
        loop: performance.eventLoopUtilization(begun).utilization,
        itemsInFlight: itemsInFlightOf(row) ?? pool.itemsInFlight,
      });
      return [...lines, ...over];
    },
  };
}

function drawLines(say: Watched['say'], facts: () => Facts): { stop(): void } {
  const begin = performance.now();
  let next = begin + FIRST_LINE;
  const timer = setInterval(() => {
    if (performance.now() < next) return;
    next = (next === begin + FIRST_LINE ? begin : next) + LINE_EVERY;
    say(factsLine(facts()));
  }, LOOK_EVERY).unref();
  return { stop: () => clearInterval(timer) };
}

/** Of several stages that ask, the one that holds the most items. */
function itemsInFlightOf(row: Watched['row']): number | undefined {
  const set = row.flatMap(({ stage, options }) =>
    stage.asks ? ((options['in-flight'] as number) ?? []) : [],
  );
  return set.length > 0 ? Math.max(...set) : undefined;
}

/** One process draws bars on a terminal; the other stages of a pipe that ask write lines above them. Null: it is taken. */
function ownTerminal(): (() => void) | null {
  try {
    const folder = join(tmpdir(), `fw-terminals-${process.getuid?.() ?? 'own'}`);
    return takeLock(folder, fstatSync(STDERR).rdev).release;
  } catch {
    return null;
  }
}
