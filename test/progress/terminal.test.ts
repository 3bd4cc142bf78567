/** Bars on a real pseudo terminal (util-linux's script), and the lines of a log: real processes, real servers. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { slow } from '../all.ts';
import { folder, type Ran, ROOT, shell } from '../fw.ts';
import { type Servers, servers } from '../pipe/servers.ts';
import { screenAfter } from './screen.ts';

const CSV = join(ROOT, 'fixtures', 'applications-60.csv');
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
const FRAME = '\r\u001b[J\n';

interface OnTerminal {
  ran: Ran;
  /** all that went to the terminal */
  text: string;
}

/** Runs a line with its stderr (and, unless it is redirected, its stdout) on a terminal of that size. */
async function onTerminal(line: string, size: { columns: number; rows: number }): Promise<OnTerminal> {
  const at = folder();
  const inside = `stty cols ${size.columns} rows ${size.rows}; set -o pipefail; ${line}`;
  const ran = await shell(`script -qec ${quoted(`bash -c ${quoted(inside)}`)} typescript`, { cwd: at });
  const text = readFileSync(join(at, 'typescript'), 'utf8').replace(/^Script started.*\n/, '');
  return { ran, text: text.replace(/\n?Script done.*\n$/, '').replaceAll('\r\n', '\n') };
}

let three: Servers;
let nine: Servers;
beforeAll(async () => {
  three = await servers(3, { latency: '200ms-500ms' });
  nine = await servers(9, { latency: '700ms' });
});

describe.concurrent('on a terminal', () => {
  const size = { columns: 120, rows: 30 };

  test('bars of the run and of each endpoint, and nothing of them at the end but the lines of all stages', async () => {
    const { ran, text } = await onTerminal(
      `fw ingest ${CSV} | fw chain --wait 1m ${three.flags} | fw legacy > out.jsonl`,
      size,
    );
    expect(ran.code, text).toBe(0);
    const frames = text.split(FRAME).slice(1);
    expect(frames.length).toBeGreaterThan(3);
    const shown = frames.map(frame => screenAfter(`\n${frame}`, size).lines.join('\n'));
    // the input has ended, so its length is known, though it came by a pipe
    expect(
      shown.some(frame =>
        /^chain [█░]{20} \d+ % of calls · \d+ of 60 items done · \d+ in flight · /m.test(frame),
      ),
    ).toBe(true);
    for (const { url } of three.all)
      expect(shown.some(frame => frame.includes(`  ${url} █`) || frame.includes(`  ${url} ░`))).toBe(true);
    expect(shown.some(frame => /░ \d+\/\d+ up\b/m.test(frame))).toBe(true);

    const { lines } = screenAfter(text, size);
    expect(lines[0]).toMatch(/^chain: asking /);
    expect(lines.filter(line => line.startsWith('ingest: in 60 = 60 clean'))).toHaveLength(1);
    expect(lines.filter(line => line.startsWith('legacy: in 60 = '))).toHaveLength(1);
    expect(lines.find(line => line.startsWith('chain: time: '))).toMatch(/% of item time asking, /);
    expect(lines.join('\n')).not.toMatch(/[█░]/);
  });

  slow('of a file the bar knows how far it is', async () => {
    const { ran, text } = await onTerminal(
      `fw ingest ${CSV} > items.ndjson; fw chain --wait 1m ${three.flags} < items.ndjson > done.ndjson`,
      size,
    );
    expect(ran.code, text).toBe(0);
    expect(text).toMatch(/chain [█░]{20} \d+ % of calls · \d+ of 60 items done/);
  });

  slow('more than eight endpoints are one line, and a narrow terminal gets what fits', async () => {
    const narrow = { columns: 44, rows: 24 };
    const { ran, text } = await onTerminal(
      `fw ingest ${CSV} | fw chain --wait 1m ${nine.flags} > done.ndjson`,
      narrow,
    );
    expect(ran.code, text).toBe(0);
    const frames = text.split(FRAME).slice(1);
    const drawn = frames.map(frame => screenAfter(frame.split('\u001b[2A\r')[0] ?? '', narrow));
    expect(drawn.map(({ lines }) => lines[1]).join('\n')).toMatch(/^ {2}9 endpoints [█░]{10} \d+\/[\d,]+/m);
    for (const { widest } of drawn) expect(widest).toBeLessThan(narrow.columns);
  });

  slow('a terminal that is made smaller is drawn anew', async () => {
    const { ran, text } = await onTerminal(
      `(until grep -qE '0/192|/64' typescript; do read -rt 0.1 < <(:); done; stty cols 60 < /dev/tty) & ` +
        `fw ingest ${CSV} | fw chain --wait 1m ${nine.flags.split(' ').slice(0, 6).join(' ')} > done.ndjson; wait`,
      size,
    );
    expect(ran.code, text).toBe(0);
    const frames = text.split(FRAME).slice(1, -1);
    const widths = frames.map(frame => screenAfter(frame.split('\u001b[4A\r')[0] ?? '', size).widest);
    expect(Math.max(...widths)).toBeGreaterThan(60);
    expect(widths.filter(width => width < 60).length).toBeGreaterThan(0);
    expect(screenAfter(text, size).lines.join('\n')).not.toMatch(/[█░]/);
  });

  slow(
    'two stages that ask share a terminal: one draws bars, the other writes lines above them',
    async () => {
      const { ran, text } = await onTerminal(
        `fw ingest ${CSV} | fw chain --wait 1m --no-decision ${nine.flags} | fw synthesize-decision --wait 1m ${nine.flags} > done.ndjson`,
        size,
      );
      expect(ran.code, text).toBe(0);
      const frames = text.split(FRAME).slice(1);
      const drawers = new Set(frames.map(frame => /^(chain|synthesize-decision)\b/.exec(frame)?.[1]));
      expect(drawers.size).toBe(1);
      const { lines } = screenAfter(text, size);
      expect(lines.filter(line => line.startsWith('chain: in 60 = '))).toHaveLength(1);
      expect(lines.filter(line => line.startsWith('synthesize-decision: in 60 = '))).toHaveLength(1);
      expect(lines.join('\n')).not.toMatch(/[█░]/);
    },
  );

  slow('fw run, whose items go to a file, draws them though nothing was redirected', async () => {
    const batch = join(ROOT, 'pipelines', 'fairwatch', 'batch.yaml');
    const { ran, text } = await onTerminal(`fw run ${batch} ${CSV} --wait 1m ${three.flags}`, size);
    expect(ran.code, text).toBe(0);
    expect(text).toMatch(/batch\.yaml [█░]{20} \d+ % of calls · \d+ of 60 items done/);
  });

  test('where the items themselves go to the terminal there are no bars', async () => {
    const { ran, text } = await onTerminal(
      `fw ingest ${CSV} --limit 3 | fw chain --wait 1m ${nine.flags}`,
      size,
    );
    expect(ran.code, text).toBe(0);
    expect(text).not.toContain('█');
    expect(text).not.toContain('░');
  });
});

test('in a log: a line after some seconds, with the same facts', async () => {
  const [one] = nine.all;
  const ran = await shell(
    `fw ingest ${CSV} | fw chain --wait 1m --endpoint ${one?.url} --in-flight 40 > done.ndjson`,
    {
      cwd: folder(),
    },
  );
  expect(ran.code, ran.stderr).toBe(0);
  const lines = ran.stderr.split('\n').filter(line => /^chain: .*\d+ in flight/.test(line));
  expect(lines.length).toBeGreaterThan(0);
  expect(lines[0]).toMatch(
    /^chain: (\d+ % of calls · \d+ of 60|\d+) items done · \d+ in flight · (this process is \d+ % busy and holds it up · )?[\d.]+ calls\/s · tokens\/s [\d,.]+ in( \(\d+ % cached\))?, [\d,.]+ out · http:\S+ \d+\/\d+ up/,
  );
  // which one hangs on what else this machine does; test/progress/diagnosis.test.ts has them all
  expect(ran.stderr).toMatch(/· bottleneck: \S/);
});

describe('what waits for lines of a terminal says so', () => {
  const WAITS = 'reading from the terminal; end with Ctrl-D';
  /** What `line` says with a terminal as its standard input, where nobody types but the end. */
  const saidOn = async (line: string): Promise<string> => {
    const { stdout } = await shell(`printf '\\004' | script -qec ${quoted(line)} /dev/null`, {
      cwd: folder(),
    });
    return stdout;
  };

  test('a stage, once, before the rest; not behind a pipe, nor with a file', async () => {
    const first = await saidOn('fw select --failed | fw verify');
    expect(first.split(WAITS).length - 1).toBe(1);
    expect(first).toContain(`fw select: ${WAITS}`);
    expect(await saidOn(`fw ingest ${CSV} --limit 1 > /dev/null`)).not.toContain(WAITS);
  });

  slow.each([
    ...[
      'agent-step --agent risk',
      'chain',
      'request',
      'export --format csv',
      'fix-escapes',
      'ingest',
      'legacy',
    ],
    ...['legacy-convert', 'null-fix', 'select --failed', 'synthesize-decision', 'validate', 'verify'],
    ...[
      'ingest --format legacy',
      'ingest --format openai-batch',
      'verify -',
      'verify /dev/stdin',
      'batch -i -',
    ],
    ...['report --outcome x --approve y --group g', 'explain 1', 'compare a - --outcome x --approve y'],
  ])('fw %s', async line => {
    expect(await saidOn(`touch a; fw ${line}`)).toContain(WAITS);
  });
});
