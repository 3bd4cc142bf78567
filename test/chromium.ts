/** Pages as a browser draws them: in `make test-all` alone, and where a Chromium is installed. */
import { type Browser, chromium } from 'playwright-core';
import { ALL } from './all.ts';
import { shell } from './fw.ts';

/** The path of Chromium; empty where pages are not drawn. */
export const CHROMIUM = ALL
  ? (process.env.CHROMIUM ?? (await shell('command -v chromium')).stdout.trim())
  : '';

export const startChromium = (): Promise<Browser> =>
  chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });

/** Of a desk and of a phone: pixels of width, and what the system prefers. */
export const SCREENS = [
  [1280, 'light'],
  [1280, 'dark'],
  [390, 'light'],
  [390, 'dark'],
] as const;
