/** Why lines of a batch have failed: counted by code, with a few of each as examples. Bounded, whatever servers say. */

import { failureOf, type Item } from '../../../engine/core/item/item.ts';
import { cut } from '../../../engine/core/item/wording.ts';
import { isObject } from '../../../engine/core/json/pointer.ts';
import { responseOf } from '../../../engine/tables/export/openai-batch.ts';

export interface FailureGroup {
  /** of the line, or `HTTP 400` where a server refused it */
  code: string;
  count: number;
  examples: { custom_id: string; message: string }[];
}

const MOST_CODES = 30;
const MOST_EXAMPLES = 3;
/** characters */
const LONGEST = 300;
const OTHER = 'other';

/** Counts a line that failed; `error` is what the line says is wrong, null where a server's refusal says it. */
export function noteFailure(
  groups: FailureGroup[],
  item: Item,
  error: { code: string; message: string } | null,
): void {
  const { status_code, body } = responseOf(item) ?? {};
  const said = isObject(body) && isObject(body.error) ? body.error.message : undefined;
  const code = error?.code ?? `HTTP ${status_code}`;
  const message = error?.message ?? (typeof said === 'string' ? said : (failureOf(item)?.message ?? ''));
  const group = groupOf(groups, code);
  group.count += 1;
  if (group.examples.length < MOST_EXAMPLES)
    group.examples.push({ custom_id: cut(String(item.id), LONGEST), message: cut(message, LONGEST) });
}

function groupOf(groups: FailureGroup[], code: string): FailureGroup {
  const found = groups.find(group => group.code === code);
  if (found !== undefined) return found;
  if (groups.length >= MOST_CODES && code !== OTHER) return groupOf(groups, OTHER);
  const group: FailureGroup = { code, count: 0, examples: [] };
  groups.push(group);
  return group;
}
