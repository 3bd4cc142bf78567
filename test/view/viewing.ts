/** A fw view of this process, and who looks at it: a browser without scripts, which keeps its cookie. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { advisor } from '../../engine/audit/advice.ts';
import { Judging } from '../../products/view/judging.ts';
import { openLedgerFacts } from '../../products/view/ledger-facts.ts';
import { Pairs } from '../../products/view/pairs.ts';
import { ALL_ROWS, type Query } from '../../products/view/query.ts';
import { Run } from '../../products/view/rows/run.ts';
import { View, type ViewOptions } from '../../products/view/view.ts';
import { startView } from '../../products/view/view-server.ts';
import { stages } from '../../stages/index.ts';
import { folder } from '../fw.ts';

interface Given {
  hide?: string[];
  sample?: ViewOptions['sample'];
  where?: Query;
  report?: string;
  by?: string;
  labels?: string;
  ledger?: string;
  beside?: string;
}

/** A file of lines in a folder of its own. */
export function fileOf(lines: readonly (object | string)[], name = 'items.ndjson'): string {
  const path = join(folder(), name);
  writeFileSync(
    path,
    lines.map(line => `${typeof line === 'string' ? line : JSON.stringify(line)}\n`).join(''),
  );
  return path;
}

export async function viewing(paths: readonly string[], given: Given = {}) {
  const { hide = [], sample = null, where = ALL_ROWS, report = null, by = 'anna' } = given;
  const labels = given.labels ?? join(folder(), 'labels.ndjson');
  const reading = { maxLine: 16 * 1024 * 1024, keptIn: folder(), hashes: given.beside !== undefined };
  const run = await Run.open(paths, reading);
  const other = given.beside === undefined ? null : await Run.open([given.beside], reading);
  const facts = given.ledger === undefined ? null : openLedgerFacts(given.ledger);
  await facts?.read();
  const view = new View({ run, facts, hide, sample });
  let seconds = 0;
  const judging = await Judging.open({
    ...{ path: labels, by, hidden: hide, maxLine: 1 << 20 },
    now: () => new Date(Date.UTC(2026, 0, 1, 0, 0, ++seconds)),
  });
  const bugs: string[] = [];
  const listen = { host: '127.0.0.1', port: 0 };
  const known = { agents: null, schema: null, advice: await advisor(stages) };
  const server = await startView({
    view,
    judging,
    known,
    pairs: other && new Pairs(run, other),
    where,
    report,
    listen,
    say: message => bugs.push(message),
  });
  onTestFinished(async () => {
    await server.close();
    judging.close();
    facts?.close();
    await other?.close();
    await run.close();
  });
  while (!run.state().done) await run.grown(run.state().rows, 10_000);
  while (other !== null && !other.state().done) await other.grown(other.state().rows, 10_000);
  await view.drawn();
  const { origin } = new URL(server.address);
  const entered = await fetch(server.address, { redirect: 'manual' });
  const cookie = (entered.headers.get('set-cookie') as string).split(';')[0] as string;
  const get = async (path: string, headers: Record<string, string> = {}) => {
    const reply = await fetch(origin + path, { redirect: 'manual', headers: { cookie, ...headers } });
    return { status: reply.status, headers: reply.headers, text: await reply.text() };
  };
  const post = async (
    path: string,
    fields: Record<string, string>,
    headers: Record<string, string> = { origin },
  ) => {
    const init = { method: 'POST', body: new URLSearchParams(fields), redirect: 'manual' } as const;
    const reply = await fetch(origin + path, { ...init, headers: { cookie, ...headers } });
    return { status: reply.status, to: reply.headers.get('location'), text: await reply.text() };
  };
  return { address: server.address, origin, cookie, labels, view, run, bugs, get, post };
}

/** Text that would run, turn or end something, if a page did not escape it. */
export const WICKED =
  '</script><script>top.ran=1</script>"><img src=x onerror="top.ran=1">\'`{{1}}</pre></td>\u202e\u0000\u001b[31m';

/** An item of two agents: some clean, some failed, in groups. */
export function itemOf(at: number, more: object = {}): object {
  const answer = { approval_decision: at % 3 === 0 ? 'deny' : 'approve', interest_rate: 4 + (at % 40) / 4 };
  const step = (agent: string, rung = 'clean') => ({
    ...{ agent, output: answer, rung, saw: 'clean', repairs: [], calls: [], attempts: 1 + (at % 2) },
    usage: { prompt: 500 + at, completion: 90 + (at % 50) },
  });
  const group = ['ash', 'birch', 'cedar', 'elm'][at % 4] as string;
  return {
    id: `id-${at}`,
    row: at + 1,
    input: { name: `Applicant ${at}`, group, income: 20_000 + at * 10 },
    prompt: `May the applicant of the ${group} group have the loan of ${1000 + at}?`,
    ordering: ['risk_manager', 'regulatory'],
    steps: [step('risk_manager'), step('regulatory')],
    ...(at % 10 === 7
      ? {
          failure: {
            stage: 'chain',
            agent: 'regulatory',
            code: 'no-valid-answer',
            message: 'No answer is valid.',
          },
        }
      : { decision: step('business_decision', at % 10 === 3 ? 'defaulted' : 'clean') }),
    ...more,
  };
}

export const itemsOf = (count: number): object[] => Array.from({ length: count }, (_, at) => itemOf(at));
