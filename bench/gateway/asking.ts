/** Callers of the benches of the gateway: what calls and streams took, as seen from outside. */
import { Client } from 'undici';
import { CHUNKS, clock, MODEL } from './parties.ts';

/** Some 800 bytes of prompt, or few. */
export const bodyOf = (isStream: boolean, words = 38): string =>
  JSON.stringify({
    model: MODEL,
    messages: [{ role: 'user', content: 'A loan is asked for. '.repeat(words) }],
    max_tokens: 200,
    ...(isStream && { stream: true }),
  });

const REQUEST = {
  path: '/v1/chat/completions',
  method: 'POST',
  headers: { 'content-type': 'application/json' },
} as const;

/** ms of each of `calls`, by `users` that ask one after the other. */
export async function ask(
  origin: string,
  calls: number,
  users: number,
  body = bodyOf(false),
): Promise<number[]> {
  const times: number[] = [];
  let left = calls;
  const user = async (): Promise<void> => {
    const client = new Client(origin, { pipelining: 1 });
    while (left-- > 0) {
      const from = performance.now();
      const reply = await client.request({ ...REQUEST, body });
      await reply.body.arrayBuffer();
      if (reply.statusCode !== 200) throw new Error(`HTTP ${reply.statusCode}`);
      times.push(performance.now() - from);
    }
    await client.close();
  };
  await Promise.all(Array.from({ length: users }, user));
  return times;
}

/** `streams` at once: ms from the server's sending to here of each chunk, and how many did not come. */
export async function stream(origin: string, streams: number): Promise<{ delays: number[]; lost: number }> {
  const delays: number[] = [];
  const one = async (): Promise<void> => {
    const client = new Client(origin);
    const { body } = await client.request({ ...REQUEST, body: bodyOf(true) });
    let rest = '';
    for await (const bytes of body) {
      const at = clock();
      const events = (rest + bytes).split('\n\n');
      rest = events.pop() ?? '';
      for (const event of events) {
        const [, sent] = /"content":"([\d.]+)"/.exec(event) ?? [];
        if (sent !== undefined) delays.push(at - Number(sent));
      }
    }
    await client.close();
  };
  await Promise.all(Array.from({ length: streams }, one));
  return { delays, lost: streams * CHUNKS - delays.length };
}

/** Of an unsorted list. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}
