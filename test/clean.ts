/** Before each file of tests: what its tests leave behind is removed when they are over. */
import { afterAll } from 'vitest';
import { removeFolders } from './fw.ts';

afterAll(removeFolders);
