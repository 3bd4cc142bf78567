/**
 * view: look at what came in and out, in a browser on this machine, and judge it.
 *
 *   fw view items.ndjson --ledger ledger/
 *   fw view items.ndjson --where rung=failed
 *   fw view items.ndjson --sample 50 --seed 7 --stratify ethnicity --hide ethnicity --by anna
 *
 * It reads the files as they are and writes nothing but labels. The address with its token is printed on stderr, and it
 * serves until Ctrl-C.
 */
import { spawn } from 'node:child_process';
import { constants, userInfo } from 'node:os';
import { resolve } from 'node:path';
import { advisor } from '../../engine/audit/advice.ts';
import { expandPaths, expectResults } from '../../engine/core/files/input-files.ts';
import { EXIT, usageError } from '../../engine/core/item/failure.ts';
import { counted } from '../../engine/core/item/wording.ts';
import { command } from '../../engine/flow/command.ts';
import { COMMON } from '../../engine/flow/join.ts';
import type { OptionsOf } from '../../engine/flow/options.ts';
import { stages } from '../../stages/index.ts';
import { sayAs } from '../kit/execute.ts';
import { isLoopback, type Place } from './access.ts';
import { MOST_SAMPLE } from './draw.ts';
import { openAgents } from './item-page.ts';
import { Judging } from './judging.ts';
import { openLedgerFacts } from './ledger-facts.ts';
import type { Known } from './one-page.ts';
import { Pairs } from './pairs.ts';
import { ALL_ROWS, partOf, type Query, queryOf } from './query.ts';
import { Run } from './rows/run.ts';
import { expectNew, writeStill } from './still-folder.ts';
import { View } from './view.ts';
import { startView } from './view-server.ts';

const NAME = 'view';
/** rows of a static folder, where --sample does not say it */
const STILL_ROWS = 200;
const MAX_LINE = 16 * 1024 * 1024;

const OPTIONS = {
  where: {
    type: 'array',
    items: { type: 'string' },
    description:
      'COLUMN=VALUE: begin with the rows that have it; !VALUE: that have it not; A..B: a range of numbers. May be repeated.',
  },
  ledger: {
    type: 'string',
    file: 'read-folder',
    description: 'Ledger folder of the run: what was asked to the letter, where, and how long it took.',
  },
  agents: {
    type: 'string',
    file: 'read-folder',
    description: 'Folder with agent files: what each was shown, where no ledger has it.',
  },
  source: {
    type: 'string',
    file: 'read',
    description:
      'Original table, for results that lack its columns; joined by id or row number, and checked.',
  },
  beside: {
    type: 'array',
    items: { type: 'string' },
    file: 'read-many',
    description:
      'Files of another run of the same rows: shown beside these, what differs first. May be repeated.',
  },
  report: {
    type: 'string',
    file: 'read',
    description: 'Page of fw report: its figures lead to the rows behind them.',
  },
  labels: {
    type: 'string',
    file: 'write',
    description: 'File that labels are added to. Default: the name of the first file, with .labels.ndjson.',
  },
  by: { type: 'string', description: 'Who judges. Default: the name of the user.' },
  sample: {
    type: 'integer',
    minimum: 1,
    maximum: MOST_SAMPLE,
    description: 'Draw so many rows (of those of --where), and show only these.',
  },
  seed: {
    type: 'integer',
    minimum: 0,
    maximum: 0xffff_ffff,
    default: 1,
    description: 'Seed of the sample: the same files, options and seed draw the same rows.',
  },
  stratify: {
    type: 'string',
    description: 'Column of few values: each has its share of the sample.',
  },
  hide: {
    type: 'array',
    items: { type: 'string' },
    description: 'Column that is shown nowhere, not in the prompt either: to judge blind. May be repeated.',
  },
  html: {
    type: 'string',
    file: 'write-folder',
    description: `Write pages of a sample (--sample, default ${STILL_ROWS} rows) into this new folder, and end. They need no server.`,
  },
  listen: {
    type: 'string',
    default: '127.0.0.1:0',
    description:
      'HOST:PORT or PORT to listen on; port 0 takes a free one. On another address than this machine, whoever has the printed address reads all.',
  },
  open: {
    type: 'boolean',
    default: true,
    description: 'Open the browser; --no-open prints the address alone.',
  },
  'max-line': {
    ...COMMON['max-line'],
    default: MAX_LINE,
    description: 'Maximum line length in bytes; longer lines are listed, and not shown.',
  },
} as const;

export default command({
  name: NAME,
  summary: 'Look at items, results, batch files and tables in a browser on this machine, and judge them.',
  positional: 'FILE…',
  examples: [
    'fw view items.ndjson',
    'fw view items.ndjson --where rung=failed --where failure=no-valid-answer',
    "fw view 'out/*_legacy.jsonl' --report report.html",
    'fw view items.ndjson --sample 50 --seed 7 --stratify in.group --hide in.group --by anna',
    'fw view yesterday.ndjson --beside today.ndjson',
    'fw view items.ndjson --html pages/ --sample 100',
  ],
  options: OPTIONS,

  async run(options, patterns) {
    if (patterns.length === 0) throw usageError(`expected files, found none: fw ${NAME} FILE…`);
    const { html: folder, hide = [], stratify, seed } = options;
    if (stratify !== undefined && options.sample === undefined && folder === undefined)
      throw usageError('--stratify: expected --sample too, which says how many rows are drawn');
    if (hide.includes('file'))
      throw usageError('--hide file: the names of files stand on every page; give the files other names');
    if (options.beside !== undefined && (hide.length > 0 || options.sample !== undefined))
      throw usageError('--beside: expected no --sample and no --hide with it: pairs are shown whole');
    const listen = placeOf(options.listen);
    if (folder !== undefined) expectNew(folder);
    const paths = expectResults(await expandPaths(patterns));
    if (paths.includes('-'))
      throw usageError('expected files, found - (standard input); write it to a file first');
    const where = whereOf(options.where ?? []);
    const known: Known = {
      agents: options.agents === undefined ? null : await openAgents(options.agents),
      schema: null,
      advice: await advisor(stages),
    };
    const facts = options.ledger === undefined ? null : openLedgerFacts(options.ledger);
    const others = expectResults(await expandPaths(options.beside ?? []));
    const reading = {
      maxLine: options['max-line'],
      source: options.source ?? null,
      hashes: others.length > 0,
    };
    const run = await Run.open(paths, reading);
    const other = others.length === 0 ? null : await Run.open(others, reading);
    try {
      const size = options.sample ?? (folder === undefined ? null : STILL_ROWS);
      const sample = size === null ? null : { size, seed, by: stratify ?? null, where };
      const view = new View({ run, facts, hide, sample });
      if (folder !== undefined) {
        await facts?.read();
        return await writePages(view, folder, known);
      }
      void facts?.read(); // beside all else
      return await serve(view, {
        options,
        known,
        pairs: other && new Pairs(run, other),
        listen,
        where: sample === null ? where : ALL_ROWS,
      });
    } finally {
      facts?.close();
      await other?.close();
      await run.close();
    }
  },
});

/** Rejects (64) where --hide names what no file has: whoever judges would believe that it is hidden. Resolves when all is read. */
async function refuseInVain(view: View): Promise<void> {
  await view.drawn();
  await view.allRead();
  const [words] = view.hiddenInVain();
  if (words !== undefined) throw usageError(words);
}

async function writePages(view: View, folder: string, known: Known): Promise<number> {
  const say = sayAs(`fw ${NAME}`);
  await refuseInVain(view);
  const rows = await writeStill(view, folder, known);
  for (const words of [...view.run.state().notes]) say(words);
  say(`${counted(rows, 'row')} in ${folder}: open ${resolve(folder, 'index.html')}`);
  return EXIT.ok;
}

interface Serving {
  options: OptionsOf<typeof OPTIONS>;
  known: Known;
  pairs: Pairs | null;
  listen: Place;
  where: Query;
}

async function serve(view: View, { options, known, pairs, listen, where }: Serving): Promise<number> {
  const say = sayAs(`fw ${NAME}`);
  const [first = ''] = view.run.paths;
  const judging = await Judging.open({
    path: options.labels ?? `${first}.labels.ndjson`,
    by: options.by ?? nameOfUser(),
    hidden: view.hide,
    maxLine: options['max-line'],
    now: () => new Date(),
  });
  for (const words of judging.torn) say(words);
  const ended = new Promise<NodeJS.Signals>(end => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, end);
  });
  const server = await startView({
    view,
    judging,
    known,
    pairs,
    where,
    report: options.report ?? null,
    listen,
    say,
  });
  try {
    say(`${server.address}`);
    if (!isLoopback(listen.host))
      say(
        `it listens on ${options.listen}: whoever has this address and reaches this machine reads all of it; no TLS`,
      );
    if (options.open) openBrowser(server.opening, say);
    const signal = await Promise.race([ended, refuseInVain(view).then(() => ended)]);
    // Ctrl-C is how it is meant to end
    return signal === 'SIGINT' || signal === 'SIGTERM' ? EXIT.ok : 128 + constants.signals[signal];
  } finally {
    await server.close();
    judging.close();
  }
}

function nameOfUser(): string {
  try {
    return userInfo().username;
  } catch {
    return 'unknown'; // a user without an entry in the system's list
  }
}

function whereOf(texts: readonly string[]): Query {
  const search = new URLSearchParams();
  for (const text of texts) {
    const part = partOf(text);
    if (part === null) throw usageError(`--where: expected COLUMN=VALUE, found '${text}'`);
    search.append(...part);
  }
  return queryOf(search);
}

/** `HOST:PORT`, `[::1]:PORT` or `PORT`. */
function placeOf(text: string): Place {
  const [, host = '127.0.0.1', port = ''] =
    /^(?:(\[[0-9a-fA-F:.]{2,45}\]|[^:[\]]{1,253}):)?(\d{1,5})$/.exec(text) ?? [];
  if (port === '' || Number(port) > 65_535)
    throw usageError(`--listen: expected HOST:PORT or PORT, such as 127.0.0.1:8090, found '${text}'`);
  return { host: host.replace(/^\[|\]$/g, '').toLowerCase(), port: Number(port) };
}

/** Whoever has no display has the printed address. */
function openBrowser(opening: () => string, say: (message: string) => void): void {
  const isMac = process.platform === 'darwin';
  if (!process.stderr.isTTY || !(isMac || process.env.DISPLAY || process.env.WAYLAND_DISPLAY)) return;
  const child = spawn(isMac ? 'open' : 'xdg-open', [opening()], { stdio: 'ignore', detached: true });
  child.on('error', () => say('no browser could be opened: open the address by hand'));
  child.unref();
}
