/** Loads on a server: requests sent at once, each timed to the end of its answer. */
import type { Asking, Heard } from '../../engine/doctor/ask.ts';
import { unavailable } from '../../engine/flow/failure.ts';
import { isObject } from '../../engine/pool/completion.ts';
import type { Key } from '../../engine/pool/secret.ts';
import { causeOf, serverWords } from '../../engine/pool/words.ts';
import { type Load, promptOfWords } from './loads.ts';
import type { Measured } from './predict.ts';

export interface Server {
  asking: Asking;
  /** never said again, whatever the server says */
  key: Key | undefined;
  /** the path of its API, such as `/v1` */
  prefix: string;
  model: string;
  random: () => number;
  /** of the words that are sent, the chat template's tokens among them */
  charactersPerToken: number;
}

/** The load `times` over; of these the fastest, for whatever else a machine does makes it slower. Exit 69 on a failure. */
export async function measure(server: Server, load: Load): Promise<Measured> {
  let best = await once(server, load);
  for (let time = 1; time < load.times; time++) {
    const next = await once(server, load);
    if (next.took < best.took) best = next;
  }
  return best;
}

async function once(server: Server, load: Load): Promise<Measured> {
  const { asking, prefix, model, random, charactersPerToken } = server;
  const { name, promptTokens, outputTokens } = load;
  const heard = await Promise.all(
    Array.from({ length: load.requests }, () =>
      asking.post(`${prefix}/chat/completions`, {
        model,
        messages: [{ role: 'user', content: promptOfWords(promptTokens * charactersPerToken, random) }],
        max_tokens: outputTokens,
        min_tokens: outputTokens,
        ignore_eos: true,
        temperature: 0,
      }),
    ),
  );
  const requests = heard.map(one => usageOf(one, name, server.key));
  const took = heard.reduce((sum, one) => sum + (one as Heard).took, 0) / heard.length;
  return { name, requests, took };
}

function usageOf(
  heard: Heard | Error,
  load: string,
  key: Key | undefined,
): { prompt: number; output: number } {
  if (heard instanceof Error) throw failed(load, causeOf(heard, key));
  if (heard.status !== 200) throw failed(load, `HTTP ${heard.status}: ${serverWords(heard.body, key)}`);
  const usage = usageIn(heard.body);
  const [prompt, output] = [usage?.prompt_tokens, usage?.completion_tokens];
  if (Number.isSafeInteger(prompt) && Number.isSafeInteger(output) && (output as number) > 0) {
    return { prompt: prompt as number, output: output as number };
  }
  throw failed(load, 'an answer that does not say its tokens');
}

function failed(load: string, found: string) {
  return unavailable(`--calibrate: expected answers to the load '${load}', found ${found}`);
}

function usageIn(body: Buffer): Record<string, unknown> | undefined {
  try {
    const reply: unknown = JSON.parse(body.toString());
    return isObject(reply) && isObject(reply.usage) ? reply.usage : undefined;
  } catch {
    return undefined;
  }
}
