/**
 * The page in a real Chromium, at the widths of a desk and of a phone, light and dark: nothing overflows, every chart has
 * its title, its axes and a table behind it, no letters leave their chart. FW_SHOTS=folder keeps the pictures. It is left
 * out where there is no chromium on the PATH (or at CHROMIUM).
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
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
    const line =
      'fw report items.ndjson --outcome approval_decision --approve approve --group name --twins cell --risk score > report.html';
    const { code, stderr } = await shell(line, { cwd: at });
    expect(code, stderr).toBe(0);
    browser = await startChromium();
  }, 60_000);
  afterAll(() => browser?.close());

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
