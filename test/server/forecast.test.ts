/** What a server says of windows: at creation, while a batch runs, on its page and to Prometheus. */
import { expect, test } from 'vitest';
import { startSimulator } from '../../products/simulator/simulator.ts';
import { freePort } from '../free-port.ts';
import { begin, lineOf, linesOf, reached } from './batching.ts';
import { MODEL, served, simulated } from './serving.ts';

interface Told {
  verdict: string;
  end: number | null;
  window: number;
  slack: number | null;
  words: string;
}

test('a batch says whether its window can be kept: not before anything was seen, and late where it is too short', async () => {
  const first = await startSimulator({ port: await freePort(), model: MODEL });
  const { url } = first;
  await first.close(); // nobody is there
  const server = await served({ endpoints: [url], limit: 4 });
  const openai = server.client();
  const see = async (id: string) => {
    const { data, response } = await openai.batches.retrieve(id).withResponse();
    const { fw_forecast } = data as unknown as { fw_forecast?: Told };
    return { forecast: fw_forecast, header: response.headers.get('x-fw-forecast'), metadata: data.metadata };
  };
  const metrics = async (): Promise<string> => (await fetch(`${server.url}/metrics`)).text();
  const none = await begin(openai, linesOf(250), { metadata: { name: 'mine' } });
  const before = await see(none.id);
  expect(before.forecast).toMatchObject({ verdict: 'unknown', end: null, slack: null });
  expect(before.forecast?.words).toContain('no endpoint is up');
  expect(before.header).toBe(`unknown;window=${before.forecast?.window}`);
  expect(before.metadata).toEqual({ name: 'mine' });
  expect(await metrics()).not.toContain('\nfw_batch_least_slack_seconds ');

  await simulated({ port: Number(new URL(url).port), latency: '100ms' });
  await expect.poll(() => see(none.id)).toMatchObject({ forecast: { verdict: 'kept' } });
  const { forecast, header } = await see(none.id);
  const { end = 0, slack = 0, window = 0 } = forecast ?? {};
  expect((end ?? 0) + (slack ?? 0)).toBe(window);
  expect(header).toBe(`kept;end=${end};slack=${slack};window=${window}`);
  expect(forecast?.words).toMatch(/^ends about \d\d:\d\d UTC, window until [\d -]+:\d\d UTC: kept$/);
  expect(await (await fetch(`${server.url}/ui/batches/${none.id}`)).text()).toContain('ends about ');

  // it is told in the answer to its making, from the beginning of the file
  const late = await begin(openai, linesOf(8_000), { completion_window: '100s' as '24h' });
  expect((late as unknown as { fw_forecast: Told }).fw_forecast).toMatchObject({ verdict: 'late' });
  await expect.poll(metrics).toContain('\nfw_batch_deadline_out_of_reach{reason="window"} 1\n');
  expect(await metrics()).not.toMatch(/\nfw_batch_least_slack_seconds -/); // a window that was never to be kept is its user's
  await reached(openai, late.id, ({ status }) => status === 'in_progress');
  for (const { id } of [late, none]) await openai.batches.cancel(id);
  for (const { id } of [late, none]) await reached(openai, id);
  expect(await see(late.id)).toMatchObject({ forecast: undefined, header: null });

  // what users do is told apart: a cancel, and a model that nobody has
  const typo = await begin(openai, lineOf('r', { model: 'typo' }));
  await reached(openai, typo.id);
  expect(await metrics()).toContain('\nfw_batch_items_total{outcome="refused"} 1\n');
  expect(await metrics()).toContain('\nfw_batch_items_total{outcome="failed"} 0\n');
  expect(await metrics()).toMatch(/\nfw_batch_items_total\{outcome="not_asked"\} [1-9]\d{3}\n/);
});
