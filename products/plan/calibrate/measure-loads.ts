/** Loads on a server: requests sent at once, each timed to the end of its answer. */

import { readCompletion } from '../../../engine/asking/endpoints/completion.ts';
import { causeOf, type Key, serverWords } from '../../../engine/asking/endpoints/endpoint-words.ts';
import type { Asking, Heard } from '../../../engine/asking/pool/probe.ts';
import { unavailable } from '../../../engine/core/item/failure.ts';
import type { Measured } from './constants.ts';
import { type Load, promptOfWords } from './loads.ts';

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
  const prompts = Array.from({ length: load.requests }, () =>
    promptOfWords(promptTokens * charactersPerToken, random),
  );
  const heard = await Promise.all(
    prompts.map(content =>
      asking.post(`${prefix}/chat/completions`, {
        model,
        messages: [{ role: 'user', content }],
        max_tokens: outputTokens,
        min_tokens: outputTokens,
        ignore_eos: true,
        temperature: 0,
      }),
    ),
  );
  const requests = heard.map((one, at) => {
    const most = { prompt: (prompts[at] as string).length + TEMPLATE, output: outputTokens };
    return usageOf(one, name, most, server.key);
  });
  const took = heard.reduce((sum, one) => sum + (one as Heard).took, 0) / heard.length;
  return { name, requests, took };
}

/** What a server may put around a prompt, in tokens. */
const TEMPLATE = 1_000;

/** The tokens of a request: a prompt has at most one a character, and an answer no more than it was let have. */
function usageOf(
  heard: Heard | Error,
  load: string,
  most: { prompt: number; output: number },
  key: Key | undefined,
): { prompt: number; output: number } {
  if (heard instanceof Error) throw failed(load, causeOf(heard, key));
  if (heard.status !== 200) {
    const words = serverWords(heard.body, key);
    throw failed(load, `HTTP ${heard.status}${words && `: "${words}"`}`);
  }
  const read = readCompletion(heard.body, key);
  if (typeof read === 'string') throw failed(load, read);
  const { prompt, completion: output } = read.answer.usage;
  if (prompt === 0 || output === 0) throw failed(load, 'an answer that does not say its tokens');
  if (prompt > most.prompt)
    throw failed(
      load,
      `an answer that counts ${prompt} tokens in a prompt of ${most.prompt - TEMPLATE} characters`,
    );
  if (output > most.output)
    throw failed(load, `an answer of ${output} tokens where ${most.output} were asked for`);
  return { prompt, output };
}

function failed(load: string, found: string) {
  return unavailable(`--calibrate: expected answers to the load '${load}', found ${found}`);
}
