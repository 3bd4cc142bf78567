/** Before each file of tests: SEED is that of every property, and what its tests leave behind is removed when they are over. */
import fc from 'fast-check';
import { afterAll } from 'vitest';
import { removeFolders } from './fw.ts';

if (process.env.SEED) fc.configureGlobal({ seed: Number(process.env.SEED) });
afterAll(removeFolders);
