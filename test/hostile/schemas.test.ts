/** Schemas that are made to hurt: each is refused in words, or judges every value within its budget. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { compileSchema } from '../../engine/answers/schema.ts';
import { Fatal } from '../../engine/core/item/failure.ts';
import { every } from '../all.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';
import { HOSTILE, VALUES } from './schemas.ts';

test('there are 200 of them', () => {
  expect(HOSTILE.length).toBeGreaterThanOrEqual(200);
});

test.each(every(9, HOSTILE))('$name', ({ schema }) => {
  try {
    const check = compileSchema(schema, 'hostile.json');
    for (const value of every(6, VALUES)) {
      const problems = check(value);
      expect(problems.length).toBeLessThanOrEqual(1_000_000);
      expect(check(value)).toEqual(problems); // the second time as the first: no count is left over
    }
  } catch (error) {
    expect(error).toBeInstanceOf(Fatal);
    expect((error as Fatal).exit).toBe(65);
  }
});

// On a small heap, as a process of its own: these took gigabytes.
test.each(
  every(4, [
    'anyOf of 2, 30 levels, leaf 0',
    'oneOf of 6, 9 levels, leaf 0',
    '900 forms by anyOf for each item',
    '60000 required of each item',
  ]),
)('fw validate --schema within 256 MB: %s', async name => {
  const at = folder();
  const { schema } = HOSTILE.find(one => one.name === name)!;
  writeFileSync(join(at, 'schema.json'), JSON.stringify(schema));
  writeFileSync(join(at, 'in.ndjson'), VALUES.map(value => `${JSON.stringify(value)}\n`).join(''));
  const ran = await fw('fw validate --schema schema.json < in.ndjson | wc -l', {
    cwd: at,
    env: { NODE_OPTIONS: '--max-old-space-size=256' },
  });
  expect(ran.code, ran.stderr).toBe(0);
  expect(Number(ran.stdout)).toBe(VALUES.length);
});
