/** What a dry run says of what prompts have in common. */
import { expect, test } from 'vitest';
import { Sharing, sharedWords } from '../../engine/flow/sharing.ts';

const documents = Array.from(
  { length: 20 },
  (_document, at) => `Document ${at}. ${`${at} is what it says. `.repeat(100)}`,
);
const questions = ['Is it true?', 'Who wrote it?', 'When?', 'Where?', 'Why?'];

function wordsOf(
  textOf: (document: string, question: string) => string,
  body: (at: number) => string | null,
): string[] {
  const sharing = new Sharing();
  let at = 0;
  for (const question of questions)
    for (const document of documents) {
      const text = textOf(document, question);
      const item = { id: `${at}`, input: { document, question }, prompt: text };
      sharing.add(item, { model: '', name: item.id, texts: () => [text] }, body(at++));
    }
  return sharedWords(sharing.shared(), false);
}

test('the column that should stand first is named', () => {
  const [first, second, ...more] = wordsOf(
    (document, question) => `${question}\n${document}`,
    () => null,
  );
  expect(first).toMatch(/^0 % /);
  expect(second).toMatch(/^(79|80) % .*the column document/);
  expect(more).toEqual([]);
});

test('where it stands first already there is nothing to be said', () => {
  const lines = wordsOf(
    (document, question) => `${document}\n${question}`,
    () => null,
  );
  expect(lines).toHaveLength(1);
  expect(Number.parseInt(lines[0] as string, 10)).toBeGreaterThan(65);
});

test('prompts that have nothing in common are not spoken of', () => {
  let at = 0;
  expect(
    wordsOf(
      () => `${at++} is alone `.repeat(50),
      () => null,
    ),
  ).toEqual([]);
});

test('requests that are equal are counted', () => {
  const lines = wordsOf(
    (document, question) => document + question,
    at => `${at % 60}`,
  );
  expect(lines.at(-1)).toMatch(/^40 requests are equal/);
});
