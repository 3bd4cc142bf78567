/**
 * The page in a real Chromium, at the widths of a desk and of a phone, light and dark: nothing overflows, every chart has
 * its title, its axes and a table behind it, no letters leave their chart. FW_SHOTS=folder keeps the pictures. It is left
 * out where there is no chromium on the PATH (or at CHROMIUM).
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hashOfJudged, labelLine } from '../../engine/audit/labels-file.ts';
import { CHROMIUM, SCREENS, startChromium } from '../chromium.ts';
import { folder, ROOT, shell } from '../fw.ts';

const SHOTS = process.env.FW_SHOTS ?? folder();

interface Seen {
  wrong: string[];
  figures: number;
  over: number;
  ground: string;
  scripts: number;
}

/** Names, numbers and a wicked one, in two orders, with twins, repeats and some left out. */
function lines(): string {
  const names = [
    'Allison Becker',
    'Darnell Jefferson',
    'A name that is much longer than any label has room for',
    '<b onclick="x">',
  ];
  const all: string[] = [];
  for (let cell = 0; cell < 60; cell++)
    for (const [nth, name] of names.entries())
      for (const ordering of ['risk_manager,data_science', 'data_science,risk_manager']) {
        const said = (cell * 7 + nth * 3 + ordering.length * (cell % 3)) % 10 < 6 - nth ? 'approve' : 'deny';
        const answer = (decision: string) => ({
          approval_decision: decision,
          interest_rate: 4 + ((cell * 13 + nth) % 170) / 10,
        });
        const step = (agent: string, decision: string, rung = 'clean') => ({
          ...{
            agent,
            output: answer(decision),
            rung,
            saw: 'clean',
            calls: [],
            attempts: 1 + ((cell + nth) % 2),
          },
          repairs:
            rung === 'clean' ? [] : [{ rule: 'null-default', at: '/interest_rate', from: null, to: 1 }],
          usage: { prompt: 100, completion: 20 },
        });
        const [one = '', other = ''] = ordering.split(',');
        all.push(
          JSON.stringify({
            id: `r${cell}-${nth}/${ordering}`,
            row: cell * names.length + nth + 1,
            input: { name, cell: `${cell}`, score: `${500 + cell * 5}` },
            prompt: 'p',
            ordering: [one, other],
            steps: [step(one, 'approve'), step(other, cell % 4 === 0 ? 'deny' : 'approve')],
            decision: step('business_decision', said, nth === 3 && cell % 9 === 0 ? 'defaulted' : 'clean'),
          }),
        );
      }
  return `${[...all, ...all.slice(0, 40).map(line => line.replace('"approve"', '"deny"'))].join('\n')}\n`;
}

/** What three people said of some of them. */
function labels(): string {
  const all = lines().split('\n', 480);
  return ['anna', 'ben', 'A judge of the longest name who has ever judged anything at all']
    .flatMap((by, at) =>
      all
        .filter((_, nth) => nth % (3 + 20 * at) === 0)
        .map((text, nth) => {
          const line = JSON.parse(text);
          const verdict = nth % 6 === at ? 'wrong' : nth % 17 === 3 ? 'unsure' : 'right';
          const sample = { seed: 7, size: 200, of: 480, by: 'in.name' };
          const hash = hashOfJudged(line) as string;
          const path = nth % 7 === 6 ? '/decision/output/interest_rate' : '';
          return labelLine({ id: line.id, path, verdict, by, at: '2026-11-26T19:20:00Z', hash, sample });
        }),
    )
    .join('');
}

const AGENT = (key: string, role: string): string =>
  `key: ${key}\nshort: ${key.replaceAll('_', '')}\ndisplay: ${key}\nrole: ${role}\npersona: p\nschema: { type: object }\nsampling: { temperature: 0, max_tokens: 9 }\n`;

describe.runIf(CHROMIUM !== '')('in chromium', () => {
  let browser: Browser;
  const at = folder();
  beforeAll(async () => {
    mkdirSync(join(at, 'agents'));
    for (const key of ['risk_manager', 'data_science'])
      writeFileSync(join(at, 'agents', `${key}.yaml`), AGENT(key, 'agent'));
    writeFileSync(join(at, 'agents', 'business_decision.yaml'), AGENT('business_decision', 'synthesis'));
    writeFileSync(join(at, 'items.ndjson'), lines());
    writeFileSync(join(at, 'labels.ndjson'), labels());
    const line =
      'fw report items.ndjson --outcome approval_decision --approve approve --group name --twins cell --risk score --labels labels.ndjson > report.html';
    const { code, stderr } = await shell(line, { cwd: at });
    expect(code, stderr).toBe(0);
    browser = await startChromium();
  }, 60_000);
  afterAll(() => browser?.close());

  test('served with its lines each figure is a link, in pictures too', async () => {
    const served = readFileSync(join(at, 'report.html'), 'utf8').replaceAll(' data-rows="', ' href="/');
    writeFileSync(join(at, 'served.html'), served);
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    await page.goto(`file://${at}/served.html`);
    await page.screenshot({ path: join(SHOTS, 'report-served.png'), fullPage: true });
    const [inPicture, inTable, visible] = (await page.evaluate(`(() => {
      const links = [...document.querySelectorAll('a[href]')];
      const shown = links.filter(link => link.closest('svg.wide'));
      const boxes = shown.map(link => link.getBoundingClientRect());
      return [shown.length, links.filter(link => link.closest('table')).length, boxes.filter(({ width, height }) => width > 20 && height > 8).length];
    })()`)) as [number, number, number];
    expect([inPicture > 20, inTable > 50]).toEqual([true, true]);
    expect(visible).toBe(inPicture);
    // of one that is pressed the browser goes to its address
    const [asked] = await Promise.all([
      page.waitForRequest(request => request.isNavigationRequest()),
      page.locator('svg.wide a[href*="in.name"]').first().click(),
    ]);
    expect(asked.url()).toMatch(/^file:\/\/\/\?in\.name=/);
    await page.close();
  });

  test.each(SCREENS)('%i pixels, %s', async (width, colorScheme) => {
    const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
    const asked: string[] = [];
    page.on('request', request => asked.push(request.url()));
    await page.goto(`file://${at}/report.html`);
    await page.screenshot({ path: join(SHOTS, `report-${width}-${colorScheme}.png`), fullPage: true });
    const seen = (await page.evaluate(readFileSync(join(ROOT, 'test/study/in-page.js'), 'utf8'))) as Seen;
    expect(seen.wrong).toEqual([]);
    expect(seen.figures).toBeGreaterThan(6);
    expect([seen.over, seen.scripts, asked.length]).toEqual([0, 0, 1]);
    expect(seen.ground).toBe(colorScheme === 'dark' ? 'rgb(22, 24, 27)' : 'rgb(252, 252, 251)');
    await page.close();
  });
});
