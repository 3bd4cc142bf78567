/** Whatever a server answers: the examination ends, what it tells is harmless on a terminal, and the key is not in it. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { renderReport } from '../../products/measure/doctor/doctor-command.ts';
import { judge } from '../../products/measure/doctor/judge.ts';
import { completion, factsOf, M, METRICS, models, type Play, play, textFor } from './playing.ts';

const SECRET = 'sk-secret-0123456789';
const key = { name: '$FW_API_KEY', read: () => SECRET };
/** Texts that steer terminals, repeat the key, or are simply long. */
const NASTY = [
  '\u001b]0;owned\u0007',
  '\u202egnp.exe',
  SECRET,
  Buffer.from(SECRET).toString('base64'),
  'x'.repeat(5_000),
  '\r\n\n',
  '\u0000',
  '"',
  '</script>',
];

/** Control, direction and other invisible characters, but for the line breaks of the page itself. */
const STEERING = /(?!\n)[\p{Cc}\p{Zl}\p{Zp}]|(?![\u200c\u200d])\p{Cf}/u;

async function tell(act: Play, root = ''): Promise<{ page: string; json: string }> {
  const server = await play(act, { root });
  const report = judge([await factsOf(server.url, { key }), await factsOf(server.url, { key })], {});
  await server.close();
  return { page: renderReport(report, { colour: false, width: 100 }), json: JSON.stringify(report) };
}

function harmless({ page, json }: { page: string; json: string }): void {
  expect(page).not.toMatch(STEERING);
  for (const text of [page, json]) {
    expect(text).not.toContain(SECRET);
    expect(text).not.toContain(Buffer.from(SECRET).toString('base64'));
    expect(text.length).toBeLessThan(40_000);
  }
}

test.each(NASTY)('%# in every text that a server has to say', async nasty => {
  harmless(
    await tell((path, response, body) => {
      if (path === '/v1/models') return models({ ...M, root: nasty, owned_by: nasty }, { ...M, id: nasty });
      if (path === '/version') return { version: nasty };
      if (path === '/metrics')
        return METRICS.replaceAll('model_name="m"', `model_name=${JSON.stringify(nasty)}`);
      if (body?.stream) return `data: ${JSON.stringify({ error: { message: nasty } })}\n\n`;
      if (body?.response_format) return completion(body, nasty);
      if (body?.seed)
        return completion(body, nasty, { choices: [{ message: { content: 'x' }, finish_reason: nasty }] });
      return body?.max_tokens === 1
        ? response.writeHead(400).end(JSON.stringify({ detail: nasty }))
        : undefined;
    }),
  );
});

test.each(NASTY)('%# as the reason why there is nothing', async nasty => {
  harmless(await tell((_, response) => response.writeHead(500).end(nasty)));
  harmless(
    await tell((_, response, body) =>
      body ? response.writeHead(418).end(JSON.stringify({ error: nasty })) : undefined,
    ),
  );
  harmless(
    await tell((_, __, body) =>
      body ? { choices: [{ message: { content: nasty } }], error: { message: nasty } } : undefined,
    ),
  );
});

test('random JSON in every answer', async () => {
  const word = fc.constantFrom(
    'data',
    'choices',
    'message',
    'content',
    'usage',
    'id',
    'version',
    'total_slots',
    'delta',
    'error',
    'models',
    'finish_reason',
    'prompt_tokens_details',
    'index',
    'x',
  );
  const { tree } = fc.letrec(tie => ({
    tree: fc.oneof(
      { maxDepth: 5 },
      fc.constantFrom(null, true, -1, 1e300, 7, '', 'm', ...NASTY.slice(0, 3)),
      fc.array(tie('tree'), { maxLength: 4 }),
      fc.dictionary(word, tie('tree'), { maxKeys: 5 }),
    ),
  }));
  await fc.assert(
    fc.asyncProperty(fc.array(tree, { minLength: 1, maxLength: 8 }), fc.nat(255), async (answers, whole) => {
      let count = 0;
      const told = await tell((path, _, body) => {
        // some answers as they should be, or the examination ends at the first
        if (path === '/v1/models' && whole & 1) return models(M);
        if (body && whole & (1 << (1 + (count % 7)))) return completion(body, textFor(body));
        const answer = JSON.stringify(answers[count++ % answers.length]);
        return body?.stream ? `data: ${answer}\n\ndata: ${answer}\n\n` : answer;
      });
      harmless(told);
    }),
    { numRuns: 60 },
  );
});
