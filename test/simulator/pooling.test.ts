/** Scores, ranks, classes and pooled vectors of a simulated server: the shapes of vLLM, the same for the same texts. */
import { expect, onTestFinished, test } from 'vitest';
import { startSimulator } from '../../products/simulator/simulator.ts';

type Body = Record<string, unknown>;

async function asking() {
  const server = await startSimulator();
  onTestFinished(() => server.close());
  const root = server.url.replace(/\/v1$/, '');
  return async (path: string, body: Body, id?: string) => {
    const headers = { 'content-type': 'application/json', ...(id && { 'x-request-id': id }) };
    const answer = await fetch(root + path, { method: 'POST', headers, body: JSON.stringify(body) });
    return { status: answer.status, body: (await answer.json()) as Body & { data: Body[]; results: Body[] } };
  };
}

test('scores of one text beside many, and of pairs; the nearer the higher', async () => {
  const ask = await asking();
  const texts = { text_1: 'a red house', text_2: ['a red house', 'the red house', 'stock prices fell'] };
  const { body } = await ask('/v1/score', texts, 'abc');
  expect(body).toMatchObject({ id: 'score-abc', object: 'list', model: 'simulated-3b' });
  const scores = body.data.map(({ score }) => score as number);
  expect(scores[0]).toBe(1);
  expect(scores[1]).toBeGreaterThan(scores[2] as number);
  expect(body.data.map(({ index, object }) => [index, object])).toEqual([0, 1, 2].map(n => [n, 'score']));
  expect(body.usage).toMatchObject({ completion_tokens: 0, prompt_tokens: expect.any(Number) });
  const pairs = { queries: ['a', 'b'], documents: ['a', 'b'] };
  expect((await ask('/score', pairs)).body.data.map(({ score }) => score)).toEqual([1, 1]);
  const odd = await ask('/score', { text_1: ['a', 'b'], text_2: ['a', 'b', 'c'] });
  expect([odd.status, JSON.stringify(odd.body)]).toEqual([400, expect.stringContaining('1:1, 1:N or N:N')]);
});

test('documents are ranked, as many as are asked for', async () => {
  const ask = await asking();
  const request = { query: 'red house', documents: ['stocks', 'a red house', 'a house'], top_n: 2 };
  for (const path of ['/rerank', '/v1/rerank', '/v2/rerank']) {
    const { body } = await ask(path, request);
    expect(body.results.map(({ index }) => index)).toEqual([1, 2]);
    expect(body.results[0]).toMatchObject({ document: { text: 'a red house' } });
    expect(body.id).toMatch(/^rerank-/);
  }
  expect((await ask('/rerank', { ...request, documents: [] })).status).toBe(400);
});

test('classes have chances that sum to 1, and pooled texts a vector each', async () => {
  const ask = await asking();
  const classes = (await ask('/classify', { input: ['one', 'two', 'one'] })).body.data;
  expect(classes[0]).toEqual({ ...classes[2], index: 0 });
  for (const { probs, label, num_classes } of classes) {
    const [first, second] = probs as [number, number];
    expect(first + second).toBeCloseTo(1, 5);
    expect([label, num_classes]).toEqual([first >= 0.5 ? 'LABEL_0' : 'LABEL_1', 2]);
  }
  const pooled = (await ask('/pooling', { messages: [{ role: 'user', content: 'one' }] })).body.data;
  expect(pooled).toHaveLength(1);
  expect(pooled[0]).toMatchObject({ object: 'pooling', index: 0 });
  expect(pooled[0]?.data).toHaveLength(384);
});
