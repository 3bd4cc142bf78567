/**
 * Bars on a terminal that others write to as well: the stages of a pipe share it, and so does whatever a person runs
 * beside. Each frame is one write, and leaves the cursor on the empty line above the bars. So whatever is written next
 * lands there, the next frame is drawn below it, and a terminal that is made smaller cannot leave half a frame.
 */
import { Writable } from 'node:stream';
import type { WriteStream } from 'node:tty';
import { Format, MultiBar, type Options, type Params } from 'cli-progress';
import type { EndpointStats } from '../../asking/pool/pool-stats.ts';
import { counted, cut } from '../../core/item/wording.ts';
import { CLEAR_BELOW } from '../../core/json/visible.ts';
import type { Facts } from './run-facts.ts';
import { endpointWords, factsWords, MOST_ENDPOINTS, summaryWords } from './run-words.ts';
import { sumOf } from './servers.ts';

const FRAMES_PER_SECOND = 4;
/** columns of a bar; and of a terminal on which it is shorter */
const WIDE = 20;
const NARROW = 10;
const FEW_COLUMNS = 80;
/** of a terminal that does not say */
const ROWS = 24;

interface Line {
  name: string;
  /** null: there is no telling how far it is, so there is no bar */
  share: number | null;
  /** the most telling first: those that do not fit are left out */
  parts: string[];
}

/** `look` is asked before each frame. */
export function drawBars(label: string, stream: WriteStream, look: () => Facts): { stop(): void } {
  let multi = start();

  function start(): MultiBar {
    const { frame, take } = collector(stream);
    const made = new MultiBar({
      stream: frame,
      fps: FRAMES_PER_SECOND,
      forceRedraw: true,
      clearOnComplete: true,
      format: (_options, { maxWidth }: Params, line: Line) => drawn(line, maxWidth - 1),
    } as Options);
    const lines = (): Line[] => barLines(label, look(), (stream.rows || ROWS) - 2);
    const bars = lines().map(line => made.create(1, 0, line));
    made.on('update-pre', () => {
      for (const [at, line] of lines().entries()) bars[at]?.update(line);
    });
    // what comes before is the library's way back to the first line, where the cursor is already
    made.on('redraw-pre', take);
    made.on('redraw-post', () => stream.write(`${CLEAR_BELOW}\n${take()}\u001b[${bars.length}A\r`));
    made.on('stop', () => stream.write(CLEAR_BELOW));
    return made;
  }

  const again = (): void => {
    multi.stop();
    multi = start();
  };
  stream.on('resize', again);
  return {
    stop() {
      stream.off('resize', again);
      multi.stop();
    },
  };
}

/** What the library takes for a terminal of that size; `take` returns what it wrote and forgets it. */
function collector({ columns, rows }: WriteStream): { frame: Writable; take(): string } {
  let text = '';
  const frame = new Writable({
    decodeStrings: false,
    write(chunk, _encoding, done) {
      text += chunk;
      done();
    },
  });
  return {
    frame: Object.assign(frame, { isTTY: true, columns, rows }),
    take() {
      const taken = text;
      text = '';
      return taken;
    },
  };
}

/** At most `most` lines: the run, and its endpoints, one a line or all in one. */
function barLines(label: string, facts: Facts, most: number): Line[] {
  const { share, endpoints } = facts;
  const run: Line = { name: label, share, parts: factsWords(facts) };
  if (endpoints.length <= Math.min(MOST_ENDPOINTS, most - 1)) {
    const width = Math.max(...endpoints.map(({ url }) => url.length));
    return [
      run,
      ...endpoints.map(one => ({
        name: `  ${one.url.padEnd(width)}`,
        share: shareOf([one]),
        parts: endpointWords(one),
      })),
    ];
  }
  const name = `  ${counted(endpoints.length, 'endpoint')}`;
  return most < 2 ? [run] : [run, { name, share: shareOf(endpoints), parts: summaryWords(endpoints) }];
}

function shareOf(endpoints: readonly EndpointStats[]): number {
  const limit = sumOf(endpoints, one => one.limit);
  return limit === 0 ? 0 : Math.min(1, sumOf(endpoints, one => one.inFlight) / limit);
}

/** As wide as `width` columns at most. */
function drawn({ name, share, parts }: Line, width: number): string {
  const barsize = width < FEW_COLUMNS ? NARROW : WIDE;
  const [whole, none] = ['█', '░'].map(character => character.repeat(barsize));
  const bar = { barsize, barGlue: '', barCompleteString: whole, barIncompleteString: none };
  let text =
    share === null
      ? name
      : `${name} ${Format.BarFormat(Math.floor(share * barsize) / barsize, bar as Options)}`;
  for (const [at, part] of parts.entries()) {
    const longer = `${text}${at === 0 ? ' ' : ' · '}${part}`;
    // what has no room is left out, and what comes after it may have some
    if (longer.length <= width || at === 0) text = longer;
  }
  // one column a character: what a server or a file name says may be wider, and would break the line
  return cut(text.replace(WIDER, '?'), width - 1);
}

const WIDER = /[^\u0020-\u007e\u00a0-\u04ff…█░]/gu;
