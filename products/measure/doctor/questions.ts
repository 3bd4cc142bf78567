/**
 * What a model is asked in an examination. Small questions, since somebody may be using the server, and such that the
 * answer tells something whatever the model is: an untrained one will do.
 */
import { randomBytes } from 'node:crypto';

const SEED = 20_260_101;
const OTHER_SEED = 7;
/** A long prompt, in characters; a model of bytes takes a token for each. */
const LONG = 4_000;
/** Enough for the answer and some thinking; few enough that a grammar which runs away in whitespace ends soon. */
const GUIDED_TOKENS = 256;
const TOLD_TOKENS = 64;

const SENTENCE =
  'The keeper of the lighthouse counted the ships, wrote their number down and trimmed the lamp. ';

type Body = Record<string, unknown>;

export interface Questions {
  trivial: Body;
  guided: readonly { body: Body; key: string; words: readonly string[] }[];
  same: Body;
  streamed: Body;
  prefix: Body;
}

/** A word that no model has seen. */
export function newWord(): string {
  return `w${randomBytes(5).toString('hex')}`;
}

/** `word` makes words that nobody can guess; `context` is what a prompt and its answer may take, in tokens. */
export function questionsFor(
  model: string,
  context: number | undefined,
  word: () => string = newWord,
): Questions {
  // A system message, as every agent has one: some chat templates refuse it.
  const ask = (content: string, more: object, system = 'You are being examined.'): Body => ({
    model,
    messages: [
      { role: 'system', content: system },
      { role: 'user', content },
    ],
    ...more,
  });
  const told = { temperature: 1, max_tokens: TOLD_TOKENS };
  const story = 'Tell a story about a lighthouse that begins with the name of its keeper.';
  const length = Math.min(LONG, Math.floor((context ?? Infinity) / 2));
  const long = `${word()} ${SENTENCE.repeat(Math.ceil(length / SENTENCE.length))}`.slice(0, length);
  return {
    trivial: ask('Hello.', { temperature: 0, max_tokens: 4 }),
    guided: [guided(), guided()],
    same: ask(story, { ...told, seed: SEED }),
    streamed: ask(story, {
      ...told,
      seed: OTHER_SEED,
      stream: true,
      stream_options: { include_usage: true },
    }),
    prefix: ask('Hello.', { temperature: 0, max_tokens: 1 }, long),
  };

  // The prompt asks for the opposite of the schema, so that a server which only shows the schema to the model is told
  // from one that decodes by it.
  function guided() {
    const [key, ...words] = [word(), word(), word()] as const;
    const schema = {
      type: 'object',
      properties: { [key]: { type: 'string', enum: words } },
      required: [key],
      additionalProperties: false,
    };
    const body = ask('Reply with the single word "no" and nothing else. Do not write JSON.', {
      temperature: 0,
      max_tokens: GUIDED_TOKENS,
      response_format: { type: 'json_schema', json_schema: { name: 'answer', schema, strict: true } },
    });
    return { body, key, words };
  }
}
