/** The page of admins in a real Chromium, at the widths of a desk and of a phone: nothing overflows, the keyboard is enough. */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CHROMIUM, SCREENS, startChromium } from '../chromium.ts';
import { folder } from '../fw.ts';
import { lookAt, WATCH } from './looks.ts';
import { keyOf, served, simulated } from './serving.ts';

describe.runIf(CHROMIUM !== '')('in chromium', () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startChromium();
  }, 60_000);
  afterAll(() => browser?.close());

  test.each(SCREENS)('%i pixels, %s: keys and endpoints', async (width, colorScheme) => {
    const data = folder();
    const key = keyOf(data, 'root', ['admin', 'batch']);
    const long = 'meta-llama/Llama-3.3-70B-Instruct-of-a-team-with-a-long-name';
    keyOf(data, 'a-team.with-a-long-name@of-a-company.example', ['batch', 'chat', 'metrics'], {
      ...{ rpm: 600, tpm: 2_000_000, tokens_per_day: 50_000_000, parallel: 40, models: [long, `${long}-2`] },
      expires: 2_000_000_000,
    });
    const { url: endpoint } = await simulated();
    const server = await served({ data, endpoints: [endpoint] });
    const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme });
    await context.addInitScript(WATCH);
    const page = await context.newPage();
    const errors: string[] = [];
    page.on('pageerror', error => errors.push(error.message));
    const look = (name: string) => lookAt(page, `admin-${name}`, width, colorScheme);

    await page.goto(server.url);
    await page.getByLabel('Key').fill(key);
    await page.keyboard.press('Enter');
    await page.getByRole('link', { name: 'Keys and endpoints' }).click();
    await look('all');
    await page.getByLabel('Owner').fill('bob');
    await page.locator('summary:visible').first().click();
    await page.getByLabel('Requests a minute').fill('60');
    await look('limits-open');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'A key of bob' }).waitFor();
    await look('made');
    await page.getByRole('link', { name: 'Keys and endpoints' }).first().click();
    await page.getByRole('link', { name: 'Drain' }).click();
    await look('question');
    await page.getByRole('button', { name: 'Drain it' }).click();
    await page.getByRole('button', { name: 'Resume' }).waitFor();
    await look('drained');
    await page.getByRole('link', { name: 'Limits' }).nth(1).click();
    await look('limits');
    await context.close();
    expect(errors).toEqual([]);
  });
});
