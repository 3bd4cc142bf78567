/**
 * fw view in a real Chromium, at the widths of a desk and of a phone, light and dark, by keyboard alone, with what its policy
 * refuses counted and with axe-core. FW_SHOTS=folder keeps the pictures. It is left out where there is no chromium.
 */
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ALL_ROWS } from '../../products/view/query.ts';
import { CHROMIUM, SCREENS, startChromium } from '../chromium.ts';
import { folder } from '../fw.ts';
import { WATCH } from '../server/looks.ts';
import { fileOf, itemOf, itemsOf, viewing, WICKED } from './viewing.ts';

const SHOTS = process.env.FW_SHOTS ?? folder();
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** As a string: it runs in the page. Under its policy no text is made code there, but for what the debugger puts in. */
const JUDGED = `axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) =>
  violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => id + ': ' + nodes.slice(0, 3).map(({ html }) => html.slice(0, 160)).join(' | ')))`;

/** view.js has run by then, so that no key is lost. */
const READY = { waitUntil: 'domcontentloaded' } as const;

const LOOK = `(() => {
  const { scrollWidth, clientWidth } = document.documentElement;
  const levels = [...document.querySelectorAll('h1, h2, h3, h4')].map(one => Number(one.localName[1]));
  return { over: scrollWidth - clientWidth, first: levels.includes(1), refused: globalThis.refused, ran: globalThis.ran ?? null,
    turned: document.body.textContent.includes('\u202e') };
})()`;

describe.runIf(CHROMIUM !== '')('in chromium', () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startChromium();
  }, 60_000);
  afterAll(() => browser?.close());

  async function opened(address: string, { width = 1280, colorScheme = 'light' as 'light' | 'dark' } = {}) {
    const context = await browser.newContext({ viewport: { width, height: 800 }, colorScheme });
    await context.addInitScript(WATCH);
    const page = await context.newPage();
    const errors: string[] = [];
    page.on('pageerror', error => errors.push(error.message));
    page.on('console', message => {
      if (message.type() === 'error') errors.push(message.text());
    });
    const asked = new Set<string>();
    page.on('request', request => asked.add(new URL(request.url()).origin));
    await page.goto(address);
    return { context, page, errors, asked };
  }

  async function lookAt(page: Page, name: string, isJudged = true): Promise<void> {
    await page.screenshot({ path: join(SHOTS, `view-${name}.png`) });
    expect([name, await page.evaluate(LOOK)]).toEqual([
      name,
      { over: 0, first: true, refused: [], ran: null, turned: false },
    ]);
    if (!isJudged) return;
    await page.evaluate(AXE);
    expect([name, await page.evaluate(JUDGED)]).toEqual([name, []]);
  }

  const rowOn = (page: Page): Promise<string | null> =>
    page.evaluate('document.activeElement?.getAttribute("aria-label") ?? null');

  test.each(SCREENS)(
    '%i pixels, %s: nothing overflows, nothing foreign runs, axe finds nothing serious',
    async (width, colorScheme) => {
      const wicked = itemOf(0, {
        id: WICKED,
        input: { [WICKED]: WICKED, group: WICKED, name: WICKED },
        prompt: WICKED,
      });
      const long = itemOf(1, { prompt: 'x'.repeat(10 * 1024 * 1024) });
      const other = (item: object): string =>
        JSON.stringify(item, (_key, value) => (value === 'deny' ? WICKED : value));
      const beside = fileOf(itemsOf(300).map(other));
      const at = await viewing(
        [
          fileOf([
            wicked,
            long,
            ...itemsOf(300),
            `{"id":"wide","input":${JSON.stringify(Object.fromEntries(Array.from({ length: 100_000 }, (_, n) => [`c${n}`, n])))}}`,
          ]),
        ],
        { beside },
      );
      const { context, page, errors, asked } = await opened(at.address, { width, colorScheme });
      const name = (what: string): string => `${what}-${width}-${colorScheme}`;
      await page.locator('tbody tr').nth(5).waitFor();
      await lookAt(page, name('table'));
      await page.locator('summary', { hasText: 'Columns' }).click();
      await lookAt(page, name('columns'));
      await page.goto(
        `${at.origin}/?rung=failed&rung=defaulted&tokens.in=1000..2000&in.group=!elm&sort=-tokens.in&q=loan`,
      );
      await page.locator('tbody tr').nth(5).waitFor();
      await lookAt(page, name('chosen'));
      for (const row of [0, 1, 9, 5, 302]) {
        await page.goto(`${at.origin}/item/${row}`);
        await lookAt(page, name(`item-${row}`), row !== 1);
      }
      await page.keyboard.press('?');
      await lookAt(page, name('keys'));
      await page.goto(`${at.origin}/beside`);
      await page.keyboard.press('j');
      await page.keyboard.press('j');
      await lookAt(page, name('pairs'));
      await page.keyboard.press('Enter');
      await page.waitForURL(/\/beside\/\d+$/, READY);
      await lookAt(page, name('pair'));
      expect([errors, [...asked], at.bugs]).toEqual([[], [at.origin], []]);
      await context.close();
    },
  );

  test('by keyboard alone: rows, one row, the next, back, search, values', async () => {
    const at = await viewing([fileOf(itemsOf(2_000))]);
    const { context, page, errors } = await opened(at.address);
    await page.locator('tbody tr').nth(5).waitFor();
    await page.keyboard.press('j');
    expect(await rowOn(page)).toBe('Row 1');
    for (const key of ['j', 'ArrowDown', 'j', 'k']) await page.keyboard.press(key);
    expect(await rowOn(page)).toBe('Row 3');
    await page.keyboard.press('End');
    await page.locator('tbody a', { hasText: '2,000' }).waitFor();
    expect(await rowOn(page)).toBe('Row 2000');
    await page.keyboard.press('PageUp');
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/item\/19\d\d$/, READY);
    for (const key of ['p', 'n']) {
      const before = page.url();
      await page.keyboard.press(key);
      await page.waitForURL(url => url.href !== before, READY);
    }
    await page.keyboard.press('Escape');
    await page.waitForURL(/\/\?from=19\d\d$/, READY);
    // it is where it was
    await page.locator('tbody a', { hasText: '1,9' }).first().waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('loan of 1777?');
    await page.keyboard.press('Enter');
    await page.locator('[data-sum=selected]', { hasText: /^1$/ }).waitFor();
    await page.keyboard.press('Escape'); // takes the last choice away
    await page.locator('[data-sum=selected]', { hasText: '2,000' }).waitFor();
    const names: string[] = [];
    for (let tab = 0; tab < 8; tab++) {
      await page.keyboard.press('Tab');
      names.push(
        await page.evaluate(`(() => { const at = document.activeElement; const seen = getComputedStyle(at).outlineStyle !== 'none' || getComputedStyle(at.closest('tr') ?? at).outlineStyle !== 'none';
        return (at.getAttribute('aria-label') ?? at.textContent.trim()).slice(0, 20) + (seen ? '' : ' (unseen)'); })()`),
      );
    }
    expect(names).toEqual([
      'To the content',
      'fw view',
      'Text in the lines, p',
      'Search',
      'Columns',
      'clean1,600',
      'without clean',
      'defaulted200',
    ]);
    await page.keyboard.press('?');
    await page.getByRole('heading', { name: 'Keys' }).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('heading', { name: 'Keys' }).waitFor({ state: 'hidden' });
    expect(errors).toEqual([]);
    await context.close();
  });

  test('to the last of a million rows, by wheel, bar and keys; no row is left out or shown twice', async () => {
    const path = join(folder(), 'million.ndjson');
    for (let part = 0; part < 10; part++)
      appendFileSync(
        path,
        Array.from({ length: 100_000 }, (_, n) => `{"id":"r${part * 100_000 + n}","n":${n}}\n`).join(''),
      );
    const at = await viewing([path]);
    const { context, page, errors } = await opened(at.address);
    const shown = (): Promise<number[]> =>
      page.evaluate(
        `[...document.querySelectorAll('tbody a')].map(one => Number(one.textContent.replaceAll(',', '')))`,
      );
    const settled = async (isSo: (rows: number[]) => boolean): Promise<number[]> => {
      for (;;) {
        const rows = await shown();
        if (rows.length > 5 && rows.every(Number.isFinite) && isSo(rows)) return rows;
        await page.evaluate('new Promise(resolve => requestAnimationFrame(resolve))');
      }
    };
    const follows = (rows: number[]): boolean =>
      rows.every((row, n) => n === 0 || row === (rows[n - 1] as number) + 1);
    await page.evaluate(`document.querySelector('.scroller').scrollTop = 1e9`);
    expect(follows(await settled(rows => rows.at(-1) === 1_000_000))).toBe(true);
    await page.mouse.move(800, 400);
    await page.mouse.wheel(0, -300);
    const [first = 0] = await settled(rows => rows.at(-1) !== 1_000_000);
    // ten rows of 30 pixels, and not the ten thousandth part of all rows
    expect(first).toBeGreaterThan(999_950);
    await page.evaluate(
      `document.querySelector('.scroller').scrollTop = document.querySelector('.scroller').scrollHeight / 2`,
    );
    expect(follows(await settled(([row = 0]) => Math.abs(row - 500_000) < 5_000))).toBe(true);
    await page.locator('.scroller').focus();
    await page.keyboard.press('Home');
    expect((await settled(([row]) => row === 1))[0]).toBe(1);
    await page.keyboard.press('End');
    expect((await settled(rows => rows.at(-1) === 1_000_000)).at(-1)).toBe(1_000_000);
    expect(errors).toEqual([]);
    await context.close();
  });

  test('rows that were not there yet come by themselves, and those that are there are not made anew', async () => {
    const path = fileOf(itemsOf(3));
    const at = await viewing([path]);
    const { context, page, errors } = await opened(at.address);
    await page.locator('tbody tr').nth(2).waitFor();
    await page.evaluate(`document.querySelector('tbody tr').id = 'same'`);
    await page.keyboard.press('j'); // somebody reads: a page that nobody has begun to read is made anew
    appendFileSync(path, `${JSON.stringify(itemOf(3))}\n${JSON.stringify(itemOf(4))}\n`);
    await page.locator('tbody a', { hasText: /^5$/ }).waitFor();
    await page.locator('[data-sum=selected]', { hasText: /^5$/ }).waitFor();
    expect(await page.evaluate(`document.querySelector('tbody tr').id`)).toBe('same');
    writeFileSync(path, '');
    await page.goto(`${at.origin}/item/2`);
    await page.getByText('the file is shorter than it was').first().waitFor();
    expect(errors).toEqual([]);
    await context.close();
  });

  test('fifty rows are judged by keys; a note, one value, and the last taken back', async () => {
    const at = await viewing([fileOf(itemsOf(500))], {
      sample: { size: 50, seed: 3, by: 'group', where: ALL_ROWS },
      hide: ['group'],
    });
    const { context, page, errors } = await opened(at.address);
    const labels = (): Record<string, unknown>[] =>
      readFileSync(at.labels, 'utf8')
        .trimEnd()
        .split('\n')
        .map(line => JSON.parse(line) as Record<string, unknown>);
    await page.locator('tbody tr').nth(5).waitFor();
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/item\//, READY);
    await page.getByText('0 of 50 judged').first().waitFor();
    await page.keyboard.press('m');
    await page.keyboard.type('not y or x, but a note');
    await page.keyboard.press('Enter');
    for (let n = 0; n < 50; n++) {
      const before = page.url();
      await page.keyboard.press(['y', 'x', 'u'][n % 3] as string);
      await page.waitForURL(url => url.href !== before, READY);
      if (n < 49)
        await page
          .getByText(`${n + 1} of 50 judged`)
          .first()
          .waitFor();
    }
    await page.locator('tbody tr').nth(5).waitFor();
    await page.getByText('50 of 50 judged').first().waitFor();
    expect(labels()).toHaveLength(50);
    expect(labels()[0]).toMatchObject({
      verdict: 'right',
      note: 'not y or x, but a note',
      hidden: ['group'],
    });
    await page.locator('tbody a').first().click();
    await page.waitForURL(/\/item\//, READY);
    await page.keyboard.press('v');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Escape');
    await page.keyboard.press('x');
    await page.locator('.earlier').waitFor();
    await page.waitForLoadState('domcontentloaded');
    expect(labels().at(-1)).toMatchObject({
      verdict: 'wrong',
      path: expect.stringMatching(/^\/(decision|steps)/),
    });
    await page.keyboard.press('z');
    await page.locator('.earlier li').nth(1).waitFor({ state: 'detached' });
    expect([labels().length, labels().at(-1)?.verdict]).toEqual([52, null]);
    expect(errors).toEqual([]);
    await context.close();
  });

  test('without scripts it is chosen by, turned and judged too', async () => {
    const at = await viewing([fileOf(itemsOf(300))]);
    const context = await browser.newContext({ javaScriptEnabled: false });
    const page = await context.newPage();
    await page.goto(at.address);
    await page.getByRole('link', { name: 'Next' }).click();
    await page.getByRole('link', { name: 'Row 101' }).waitFor();
    await page.getByRole('link', { name: /^failed ?30$/ }).click();
    await page.getByRole('link', { name: 'Row 8', exact: true }).click();
    await page.getByRole('button', { name: 'wrong' }).click();
    await page.getByText('2 of 30 rows').waitFor();
    await page.getByRole('link', { name: 'Before' }).click();
    await page.locator('.earlier').waitFor();
    await page.getByRole('link', { name: 'All rows' }).click();
    await page.getByPlaceholder('Text in the lines').fill('loan of 1007');
    await page.getByRole('button', { name: 'Search' }).click();
    await page.getByText('1 of 300').waitFor();
    await context.close();
  });
});
