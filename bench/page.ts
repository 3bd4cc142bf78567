/** docs/performance.md has one table of figures: each bench owns the rows that name its command, and prints all the rest. */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';

const PAGE = 'docs/performance.md';
const HEAD = ['what', 'figure', 'goal', 'measured by'];

export type Figure = readonly [what: string, figure: string, goal?: string];

/** Puts `figures` in the place of the rows of `make bench-NAME`, or at the end where it has none; prints `details`. */
export function writeFigures(name: string, figures: readonly Figure[], details: readonly string[]): void {
  console.log(details.join('\n'));
  const command = `\`make bench-${name}\``;
  const page = existsSync(PAGE)
    ? readFileSync(PAGE, 'utf8')
    : ['# Performance', '', ...table([HEAD])].join('\n');
  const lines = page.trimEnd().split('\n');
  const isOwn = (line: string): boolean => line.includes(`| ${command}, `);
  const from = lines.findIndex(isOwn);
  const kept = lines.filter(line => !isOwn(line));
  const day = new Date().toISOString().slice(0, 10);
  const rows = figures.map(([what, figure, goal = '']) => [what, figure, goal, `${command}, ${day}`]);
  kept.splice(from < 0 ? kept.length : from, 0, ...table([HEAD, ...rows]).slice(2));
  writeFileSync(PAGE, `${kept.join('\n')}\n`);
}

/** A Markdown table; the first row is its head. */
export function table([head = [], ...rows]: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map(cell => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)];
}

/** What the figures depend on, in a sentence; `more` are versions of what was compared. */
export function machine(more: readonly string[] = []): string {
  const [cpu] = cpus();
  const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`;
  const parts = [`${cpus().length} cores of ${cpu?.model.trim()}`, memory, `Node ${process.versions.node}`];
  return `${[...parts, ...more].join(', ')}; ${new Date().toISOString().slice(0, 10)}.`;
}

/** What a command prints, its spaces trimmed; null where it fails or is not there. */
export function said(
  command: string,
  args: readonly string[],
  env: Record<string, string> = {},
): string | null {
  const { status, stdout } = spawnSync(command, args, { env: { ...process.env, ...env }, encoding: 'utf8' });
  return status === 0 ? stdout.trim() : null;
}
