/**
 * What a server is asked in order to learn its constants. Each load is a number of requests sent at once, with prompts
 * that have nothing in common and answers of a fixed length (vLLM's ignore_eos): one alone tells the weights, a long
 * prompt the computing, a full batch the cost of a sequence, long prompts together the reading of the KV cache.
 */

export interface Load {
  name: string;
  requests: number;
  /** of each, about: the server says how many there were */
  promptTokens: number;
  outputTokens: number;
  times: number;
}

export interface Bounds {
  /** tokens of a prompt and its answer */
  maxModelLength: number;
  maxNumSeqs: number;
  kvTokens: number;
}

const SHORT = 48;
const LONG = 6_000;

/** Asked before anything is measured: a server pays for what it had not loaded, and says how many tokens its words have. */
export const FIRST: Load = { name: 'the first', requests: 1, promptTokens: 256, outputTokens: 1, times: 1 };
/** To begin with. */
export const CHARACTERS_PER_TOKEN = 4;

/** The loads that come first; none takes longer than some seconds. */
export function firstLoads({ maxModelLength, maxNumSeqs }: Bounds): Load[] {
  const long = Math.min(LONG, maxModelLength - 2 * SHORT);
  const batch = (requests: number): Load => ({
    name: `${requests} at once`,
    requests,
    promptTokens: SHORT,
    outputTokens: 64,
    times: 2,
  });
  return [
    { name: 'one token', requests: 1, promptTokens: SHORT, outputTokens: 1, times: 8 },
    { name: 'alone', requests: 1, promptTokens: SHORT, outputTokens: 64, times: 3 },
    { name: 'half a prompt', requests: 1, promptTokens: Math.round(long / 2), outputTokens: 1, times: 4 },
    { name: 'a long prompt', requests: 1, promptTokens: long, outputTokens: 1, times: 4 },
    ...[16, 64, 256].filter(requests => requests <= maxNumSeqs).map(batch),
  ];
}

/** Long prompts together: as many tokens of context as the KV cache holds with room to spare, or as can be computed in time. */
export function contextLoad({ maxModelLength, maxNumSeqs, kvTokens }: Bounds, computable: number): Load {
  const promptTokens = Math.min(LONG / 2, maxModelLength - 256);
  const fits = Math.min(0.6 * kvTokens, computable) / (promptTokens + 128);
  const requests = Math.max(2, Math.min(maxNumSeqs, Math.floor(fits)));
  return { name: `${requests} long ones`, requests, promptTokens, outputTokens: 128, times: 1 };
}

const WORDS =
  'the of and to in a is that for it as was with be by on not he his but at are this have from or had an they'.split(
    ' ',
  );

/** So many characters, about, of words that most tokenizers have as one token each; no two prompts begin alike. */
export function promptOfWords(characters: number, random: () => number): string {
  const words: string[] = [];
  for (let length = 0; length < characters; ) {
    const word = WORDS[Math.floor(random() * WORDS.length)] as string;
    words.push(word);
    length += word.length + 1;
  }
  return words.join(' ');
}
