/** Workers and shards on the page, in a real Chromium: as screen.test.ts looks at all else. What workers say of themselves is hostile. */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CHROMIUM, SCREENS, startChromium } from '../chromium.ts';
import { freePort } from '../free-port.ts';
import { folder } from '../fw.ts';
import { begin, linesOf, reached } from './batching.ts';
import { lookAt, WATCH } from './looks.ts';
import { HOSTILE } from './pages.ts';
import { keyOf, MODEL, served } from './serving.ts';
import { workerBy } from './working.ts';

describe.runIf(CHROMIUM !== '')('in chromium', () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startChromium();
  }, 60_000);
  afterAll(() => browser?.close());

  test.each(SCREENS)('%i pixels, %s: workers come, work and go', async (width, colorScheme) => {
    const data = folder();
    const key = keyOf(data, 'risk team', ['batch', 'admin']);
    const workerKey = keyOf(data, 'gpus', ['worker']);
    const queue = { url: `redis://127.0.0.1:${await freePort()}`, prefix: 'fw', lease: 60_000 };
    const server = await served({ data, endpoints: [], settings: { queue } });
    const openai = server.client(key);
    const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme });
    await context.addInitScript(WATCH);
    const page = await context.newPage();
    await page.goto(server.url);
    await page.getByLabel('Key').fill(key);
    await page.keyboard.press('Enter');
    await page.getByText('No worker is there.').waitFor();
    const look = (name: string) => lookAt(page, name, width, colorScheme);
    await look('no-workers');

    const { id } = await begin(openai, linesOf(450), { metadata: { name: 'Applications of May' } });
    const at = (more: object) => workerBy(server.url, workerKey, more);
    const endpoint = { url: 'http://gpu7:8000/v1', isUp: true, inFlight: 31, limit: 64 };
    const busy = at({
      host: 'node7.cluster.example',
      pid: 48_113,
      rate: 12.34,
      endpoints: [endpoint],
      places: 128,
    });
    const held = [];
    for (const root of [0, 1]) {
      const { name, lines } = await busy.take(id, root);
      held.push({ ...name, done: 130 + root, lines: lines.length });
    }
    const many = [2, 3, 4, 5].map(root => ({ work: id, root, part: 7, done: 3, lines: 20 }));
    await busy.hello([...held, ...many]);
    await at({ host: 'node8', isStopping: true, models: [] }).hello([{ ...held[0], work: 'run-1' } as never]);
    await at({
      host: HOSTILE,
      version: HOSTILE,
      models: [MODEL, HOSTILE],
      endpoints: [{ ...endpoint, isUp: false }],
    }).hello();
    const rows = page.locator('tbody[data-list=workers] > tr');
    await rows.nth(2).waitFor();
    await page.getByText('shard 1: 131 of 200 lines').waitFor();
    expect(await rows.locator('[data-text=state]').allTextContents()).toEqual([
      ...['working', 'stopping', 'no endpoint is up'],
    ]);
    expect(await rows.nth(0).locator('[data-list=held] > li').count()).toBe(3);
    await look('workers');
    await page.getByRole('link', { name: 'Applications of May' }).first().click();
    await page.getByText('0 of 3 shards done; 1 worker has').waitFor();
    await page.getByText('shard 1').waitFor();
    await look('shards');

    // it goes on by itself
    const rest = await busy.take(id, 2);
    await busy.put(rest);
    await page.getByText('1 of 3 shards done').waitFor();
    for (const { root } of held) await busy.put(await busy.take(id, root));
    await reached(openai, id);
    await page.locator('.state', { hasText: 'completed' }).waitFor();
    expect(await page.getByRole('heading', { name: 'Shards' }).isVisible()).toBe(false);
    await context.close();
  });
});
