/** docs/performance.md: each bench owns the section between its two markers, and writes nothing else. */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';

const PAGE = 'docs/performance.md';

/** Puts `lines` in the place of the section `name`, or at the end of the page where it has none. */
export function writeSection(name: string, lines: readonly string[]): void {
  const begin = `<!-- ${name}: written by make bench-${name} -->`;
  const end = `<!-- ${name} ends -->`;
  const page = existsSync(PAGE) ? readFileSync(PAGE, 'utf8') : '# Performance\n';
  const section = [begin, ...lines, end].join('\n');
  const from = page.indexOf(begin);
  const to = page.indexOf(end);
  writeFileSync(
    PAGE,
    from < 0 || to < from
      ? `${page.trimEnd()}\n\n${section}\n`
      : `${page.slice(0, from)}${section}${page.slice(to + end.length)}`,
  );
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
