/** What is wrong with a page as a browser draws it. */
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { folder } from '../fw.ts';

const SHOTS = process.env.FW_SHOTS ?? folder();

/** Before anything else on each page: what its policy refuses is counted, and what ran is seen. */
export const WATCH = `
  globalThis.refused = [];
  document.addEventListener('securitypolicyviolation', event => refused.push(event.violatedDirective + ' ' + event.blockedURI));
`;

/** What is wrong with a page as it is drawn. */
const LOOK = `(() => {
  const over = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  const unnamed = [...document.querySelectorAll('input:not([type=hidden]), select, button, a')]
    .filter(one => one.checkVisibility() && !(one.labels?.length > 0) && one.textContent.trim() === '').map(one => one.outerHTML);
  const levels = [...document.querySelectorAll('h1, h2, h3')].map(one => Number(one.localName[1]));
  const headless = [...document.querySelectorAll('table')].filter(one => !one.querySelector('thead th') || !one.caption).length;
  return { over, unnamed, first: levels[0], jumps: levels.filter((level, at) => at > 0 && level - levels[at - 1] > 1).length,
    headless, refused: globalThis.refused, ran: globalThis.ran ?? null, turned: document.body.textContent.includes('\u202e'), ground: getComputedStyle(document.body).backgroundColor };
})()`;

/** Takes its picture, and finds nothing wrong with it. */
export async function lookAt(
  page: Page,
  name: string,
  width: number,
  colorScheme: 'light' | 'dark',
): Promise<void> {
  await page.screenshot({ path: join(SHOTS, `serve-${name}-${width}-${colorScheme}.png`), fullPage: true });
  expect([name, await page.evaluate(LOOK)]).toEqual([
    name,
    {
      ...{ over: 0, unnamed: [], first: 1, jumps: 0, headless: 0, refused: [], ran: null, turned: false },
      ground: colorScheme === 'dark' ? 'rgb(22, 24, 27)' : 'rgb(252, 252, 251)',
    },
  ]);
}
