/** A study as one page. */
import { page } from '../study/html.ts';
import type { TuneResult } from './result.ts';
export function tunePage(result: TuneResult): string { return page({ title: 'x', header: '', main: result.words }); }
