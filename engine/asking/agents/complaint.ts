/** What a model is told of an answer that was refused, before it is asked again. Other words ask everything again. */

import type { Check } from '../../answers/schema-check.ts';
import { kindsOf, nameOf } from '../../answers/schema-words.ts';
import type { Rejected } from '../../core/item/item.ts';

const CUT_OFF = 'it was cut off at the limit of tokens. Be shorter';

export function complaintOf({ code, message, whole }: Rejected, { text, schema }: Check): string {
  if (text) {
    const cause =
      code === 'truncated' ? CUT_OFF : code === 'empty-answer' ? 'there was no text in it' : message;
    return `That answer cannot be used: ${cause}. Answer again${text.isFree ? '' : ', and with nothing else'}.`;
  }
  const name = nameOf(kindsOf(schema));
  const cause =
    code === 'truncated'
      ? CUT_OFF
      : code === 'no-json-found'
        ? whole === undefined
          ? `there was no JSON ${name} in it`
          : 'it was far too long'
        : message;
  return `That answer cannot be used: ${cause}. Answer again with exactly one JSON ${name} that fits, and nothing else.`;
}
