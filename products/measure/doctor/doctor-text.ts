/** A report for a terminal: a block for each endpoint, what is not in order with what was expected and what to do. */
import { visible } from '../../../engine/core/json/visible.ts';
import type { Finding, Mark } from './finding.ts';
import type { Examined, Report } from './judge.ts';

const COLOURS: Record<Mark, string> = { ok: '32', note: '33', trouble: '31' };
const MARK_WIDTH = 9;

export interface Look {
  colour: boolean;
  /** columns */
  width: number;
}

export function renderReport({ endpoints, together }: Report, look: Look): string {
  const blocks = endpoints.map(endpoint => [headOf(endpoint), ...findingLines(endpoint.findings, look)]);
  if (together.length > 0) blocks.push(['together', ...findingLines(together, look)]);
  blocks.push([summary(endpoints, together)]);
  return `${blocks.map(lines => lines.join('\n')).join('\n\n')}\n`;
}

function headOf({ url, server, version, model, reachable }: Examined): string {
  const what = reachable
    ? [server === 'unknown' ? '' : server, version ?? '', model ? `· ${model}` : '']
    : [];
  return visible([url, ...what].filter(Boolean).join(' '));
}

function findingLines(findings: readonly Finding[], { colour, width }: Look): string[] {
  const names = Math.max(...findings.map(({ check }) => check.length)) + 2;
  const indent = 2 + MARK_WIDTH + names;
  return findings.flatMap(({ check, mark, found, expected, advice }) => {
    const told = wrapped(visible(found), width - indent);
    if (mark !== 'ok') told.push(...wrapped(`expected: ${visible(expected)}`, width - indent));
    if (advice !== undefined) told.push(...wrapped(`→ ${visible(advice)}`, width - indent));
    const padded = mark.padEnd(MARK_WIDTH);
    const marked = colour ? `\u001b[${COLOURS[mark]}m${padded}\u001b[0m` : padded;
    return told.map((line, at) =>
      at === 0 ? `  ${marked}${check.padEnd(names)}${line}` : `${' '.repeat(indent)}${line}`,
    );
  });
}

/** Lines of at most `most` characters where there is a space to break at. */
function wrapped(text: string, most: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > Math.max(30, most)) {
      lines.push(line);
      line = word;
    } else line = line === '' ? word : `${line} ${word}`;
  }
  return [...lines, line];
}

function summary(endpoints: readonly Examined[], between: readonly Finding[]): string {
  const all = [...endpoints.flatMap(({ findings }) => findings), ...between];
  const count = (mark: Mark) => all.filter(finding => finding.mark === mark).length;
  const several = (many: number, one: string) => `${many} ${one}${many === 1 ? '' : 's'}`;
  const usable = endpoints.filter(one => one.usable).length;
  return (
    `${usable} of ${several(endpoints.length, 'endpoint')} usable · ` +
    `${count('ok')} ok, ${several(count('note'), 'note')}, ${several(count('trouble'), 'trouble')}`
  );
}
