/** A run while it goes on: what a person watches, as a row of a table on a terminal, and as a line in a log. */
import { counted, number } from '../../../engine/core/item/wording.ts';
import type { Host, Run } from './bench.ts';
import { loadWords } from './bench-result.ts';
import { notesOf } from './bench-tables.ts';
import { say } from './request-sources.ts';
import type { Live } from './samples.ts';

const COLUMNS: readonly [head: string, width: number, cell: (live: Live) => string][] = [
  ['s', 5, ({ seconds }) => seconds.toFixed(0)],
  ['ok', 8, ({ completed }) => number(completed)],
  ['failed', 6, ({ failed }) => number(failed)],
  ['under way', 9, ({ underWay }) => number(underWay)],
  ['req/s', 7, ({ requestRate }) => shown(requestRate, 2)],
  ['tok/s out', 9, ({ tokenRate }) => shown(tokenRate, 0)],
  ['TTFT p50', 8, ({ ttft50 }) => shown(ttft50, 0)],
  ['p99', 7, ({ ttft99 }) => shown(ttft99, 0)],
  ['TPOT p50', 8, ({ tpot50 }) => shown(tpot50, 1)],
  ['running', 7, ({ server }) => (server === null ? '–' : number(server.running))],
  ['waiting', 7, ({ server }) => (server === null ? '–' : number(server.waiting))],
  ['KV', 5, ({ server }) => share(server?.kv ?? null)],
  ['GPU', 5, ({ server }) => share(server?.gpu ?? null)],
];
const NAME = 22;

function shown(value: number, digits: number): string {
  if (Number.isNaN(value)) return '–';
  return value >= 1000 ? number(Math.round(value)) : value.toFixed(digits);
}

const share = (value: number | null): string => (value === null ? '–' : `${Math.round(100 * value)} %`);

/** Rows of one width, for a terminal of so many columns. */
export function liveHead(columns: number): string {
  return row(
    'load',
    COLUMNS.map(([head]) => head),
    columns,
  );
}

export function liveRow(name: string, live: Live, columns: number): string {
  return row(
    name,
    COLUMNS.map(([, , cell]) => cell(live)),
    columns,
  );
}

/** Columns that do not fit are left out, from the right: a line that wraps could not be written over. */
function row(name: string, cells: readonly string[], columns: number): string {
  let line = (name.length > NAME ? `${name.slice(0, NAME - 1)}…` : name).padEnd(NAME);
  for (const [at, cell] of cells.entries()) {
    const next = `${line}  ${cell.padStart(COLUMNS[at]?.[1] as number)}`;
    if (next.length >= columns) break;
    line = next;
  }
  return line.slice(0, Math.max(0, columns - 1));
}

/** The same in words, for a log. */
export function liveWords(live: Live): string {
  const { completed, failed, underWay, server } = live;
  const words = [
    `${live.seconds.toFixed(0)} s`,
    `${counted(completed, 'answer')}${failed > 0 ? `, ${number(failed)} failed` : ''}, ${number(underWay)} under way`,
    `${shown(live.requestRate, 2)} req/s, ${shown(live.tokenRate, 0)} tok/s out`,
    `TTFT p50 ${shown(live.ttft50, 0)} ms, p99 ${shown(live.ttft99, 0)} ms, TPOT p50 ${shown(live.tpot50, 1)} ms`,
  ];
  if (server !== null)
    words.push(
      `the servers run ${number(server.running)}, ${number(server.waiting)} wait${server.kv === null ? '' : `, KV ${share(server.kv)}`}${server.gpu === null ? '' : `, GPU ${share(server.gpu)}`}`,
    );
  return words.join(' · ');
}

const ON_TERMINAL_MS = 500;
const IN_LOG_MS = 10_000;

/** `outputTokens`: what made-up requests ask for; null where that is not known. */
export function hostOf(signal: AbortSignal, outputTokens: number | null): Host {
  const { stderr } = process;
  const { isTTY } = stderr;
  let timer: NodeJS.Timeout | undefined;
  let name = '';
  let hasHead = false;
  let look: (() => Live) | null = null;

  const draw = (live: Live): void =>
    void stderr.write(`\r\x1b[K${liveRow(name, live, stderr.columns || 80)}`);
  return {
    signal,
    warn: say,
    began(load, servers, run) {
      name = `${loadWords(load)}${servers > 1 ? ` on ${servers}` : ''}${run > 1 ? `, run ${run}` : ''}`;
      if (!isTTY) say(`${loadWords(load)} on ${counted(servers, 'server')}${run > 1 ? `, run ${run}` : ''}`);
      else if (!hasHead) stderr.write(`${liveHead(stderr.columns || 80)}\n`);
      hasHead = true;
    },
    live(next) {
      look = next;
      timer = setInterval(
        () => (isTTY ? draw(next()) : say(`${name}: ${liveWords(next())}`)),
        isTTY ? ON_TERMINAL_MS : IN_LOG_MS,
      ).unref();
    },
    ended(run: Run) {
      clearInterval(timer);
      if (isTTY && look !== null) {
        draw(look());
        stderr.write('\n');
      }
      for (const note of notesOf(run, outputTokens)) say(note);
    },
  };
}
