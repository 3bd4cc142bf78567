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
