/**
 * The page in a real Chromium, from upload to download, at the widths of a desk and of a phone, light and dark: it goes on by
 * itself, nothing overflows, nothing that is not its own runs, and the keyboard is enough. FW_SHOTS=folder keeps the pictures.
 * It is left out where there is no chromium on the PATH (or at CHROMIUM).
 */
import { readFileSync } from 'node:fs';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CHROMIUM, SCREENS, startChromium } from '../chromium.ts';
import { folder } from '../fw.ts';
import { begin, lineOf, linesOf, reached } from './batching.ts';
import { lookAt, WATCH } from './looks.ts';
import { answering, HOSTILE } from './pages.ts';
import { keyOf, served } from './serving.ts';

describe.runIf(CHROMIUM !== '')('in chromium', () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startChromium();
  }, 60_000);
  afterAll(() => browser?.close());

  test.each(SCREENS)('%i pixels, %s: from upload to download', async (width, colorScheme) => {
    const data = folder();
    const key = keyOf(data, 'risk team', ['batch', 'chat', 'admin']);
    let gate: 'open' | 'shut' = 'open';
    const endpoint = await answering(body => {
      if (body.includes('refuse')) return 400;
      if (body.includes('wicked')) return HOSTILE;
      return gate === 'shut' && body.includes('later')
        ? 503
        : `The applicant of ${/Say ([\w-]+)/.exec(body)?.[1]} meets the criteria: a stable income, no default in five years, a debt ratio of 0.31.`;
    });
    const server = await served({ data, endpoints: [endpoint] });
    const openai = server.client(key);
    const old = await begin(
      openai,
      [lineOf('wicked'), ...Array.from({ length: 7 }, (_, n) => lineOf(`refuse-${n}`)), linesOf(30)].join(
        '\n',
      ),
      { metadata: { name: `Applications ${HOSTILE.slice(0, 27)}` } },
    );
    await reached(openai, old.id);
    await begin(openai, '{"custom_id": 1}\nno line\n', { metadata: { name: 'A file that is none' } });
    await openai.chat.completions.create({
      model: 'simulated-3b',
      messages: [{ role: 'user', content: 'Hello' }],
    });

    const context = await browser.newContext({
      viewport: { width, height: 900 },
      colorScheme,
      acceptDownloads: true,
    });
    await context.addInitScript(WATCH);
    const page = await context.newPage();
    const asked: string[] = [];
    page.on('request', request => asked.push(new URL(request.url()).origin));
    const errors: string[] = [];
    page.on('pageerror', error => errors.push(error.message));
    page.on('dialog', dialog => void dialog.accept());
    const look = (name: string) => lookAt(page, name, width, colorScheme);

    await page.goto(server.url);
    await look('login');
    await page.keyboard.type('fw_wrong');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').waitFor();
    await page.getByLabel('Key').fill(key);
    await page.keyboard.press('Enter');
    await page.getByText('Live.').waitFor();
    await page.locator('summary:visible').first().click();
    await look('batches');

    await page.getByRole('link', { name: 'Start a batch' }).click();
    await look('new');
    gate = 'shut';
    const text = `${linesOf(40)}${Array.from({ length: 20 }, (_, n) => `${lineOf(`later-${n}`)}\n`).join('')}`;
    await page
      .getByLabel('File of requests, one a line')
      .setInputFiles({ name: 'today.jsonl', mimeType: 'application/jsonl', buffer: Buffer.from(text) });
    await page.getByLabel('Name').first().fill('Applications of today');
    await page.getByRole('button', { name: 'Upload and start' }).click();
    await page.getByRole('heading', { name: 'Applications of today' }).waitFor();
    await page.locator('[data-text=completed]', { hasText: /^40$/ }).waitFor();
    await look('running');
    gate = 'open';
    // it goes on by itself: nothing is loaded anew
    await page.locator('.state', { hasText: 'completed' }).waitFor();
    await page.locator('.tiles [data-text=completed]', { hasText: /^60$/ }).waitFor();
    await look('batch');
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'Output', exact: true }).click(),
    ]);
    expect(
      readFileSync(await download.path(), 'utf8')
        .trimEnd()
        .split('\n'),
    ).toHaveLength(60);

    await page.getByRole('link', { name: 'Look through the answers' }).click();
    await page.getByRole('link', { name: 'Next' }).first().click();
    await page.getByRole('heading', { name: 'r-20' }).waitFor();
    await page.goto(`${server.url}/ui/batches/${old.id}/results`);
    await look('answers');
    await page.goto(`${server.url}/ui/batches/${old.id}/results?of=errors`);
    await look('errors');
    await page.goto(`${server.url}/ui/batches/${old.id}`);
    await look('failures');

    await page.goto(`${server.url}/ui/`);
    await page.getByText('Live.').waitFor();
    gate = 'shut';
    const made = await begin(openai, lineOf('later'), { metadata: { name: 'Made elsewhere' } });
    const row = page.getByRole('row', { name: /Made elsewhere/ });
    await row.getByRole('button', { name: 'Cancel' }).click();
    await page.waitForURL(`**/ui/batches/${made.id}`);
    await page.locator('.state', { hasText: 'cancelled' }).waitFor();
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByRole('heading', { name: 'Log in' }).waitFor();
    expect([errors, [...new Set(asked)]]).toEqual([[], [server.url]]);
    await context.close();
  });

  test('the keyboard is enough, and each place that has the focus shows it', async () => {
    const server = await served();
    const openai = server.client();
    await reached(openai, (await begin(openai, linesOf(1), { metadata: { name: 'one' } })).id);
    const page: Page = await browser.newPage();
    await page.goto(server.url);
    await page.getByText('Live.').waitFor();
    const places: string[] = [];
    for (let tab = 0; tab < 7; tab++) {
      await page.keyboard.press('Tab');
      places.push(
        await page.evaluate(
          `(() => { const at = document.activeElement; return at.textContent.trim() + (getComputedStyle(at).outlineStyle === 'none' ? ' (unseen)' : ''); })()`,
        ),
      );
    }
    expect(places).toEqual([
      'To the content',
      'fw serve',
      'Batches',
      'Start a batch',
      'Keys and endpoints',
      'one',
      'Output',
    ]);
    await page.close();
  });

  test('what is not of the page is refused, and the count of it is seen', async () => {
    const server = await served();
    const page = await browser.newPage();
    await page.addInitScript(WATCH);
    await page.goto(server.url);
    const wrong = `[
      () => document.createElement('img').setAttribute('onerror', 'ran = 1'),
      () => document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="ran = 1">'),
      () => { document.body.append(Object.assign(new Image(), { src: 'http://127.0.0.1:1/x.png' })); },
    ].map(act => { try { act(); } catch (error) { return error.name; } })`;
    expect(await page.evaluate(wrong)).toEqual(['TypeError', 'TypeError', undefined]);
    await page.waitForFunction('refused.length >= 3');
    expect(await page.evaluate('globalThis.ran ?? null')).toBeNull();
    await page.close();
  });

  test('without scripts it is uploaded, looked through and cancelled too', async () => {
    const server = await served();
    const context = await browser.newContext({ javaScriptEnabled: false });
    const page = await context.newPage();
    await page.goto(`${server.url}/ui/new`);
    await page
      .getByLabel('File of requests, one a line')
      .setInputFiles({ name: 'a.jsonl', mimeType: 'application/jsonl', buffer: Buffer.from(linesOf(3)) });
    await page.getByRole('button', { name: 'Upload and start' }).click();
    const state = page.locator('.state[data-state=status]');
    while (!(await state.textContent())?.startsWith('completed')) await page.reload();
    await page.getByRole('link', { name: 'Look through the answers' }).click();
    await page.getByRole('heading', { name: 'r-2' }).waitFor();
    await context.close();
  });
});
