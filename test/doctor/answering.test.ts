/** How endpoints answer: what fw doctor finds. */
import { expect, test } from 'vitest';
import { rateOf } from '../../products/measure/doctor/check-answers.ts';
import { isSilence } from '../../products/measure/doctor/endpoint-facts.ts';
import { readStream } from '../../products/measure/doctor/examined-answer.ts';
import {
  at,
  type Body,
  chat,
  completion,
  events,
  expectRow,
  METRICS,
  type Play,
  type Row,
  textFor,
} from './playing.ts';

const choices = (text: string, more: object): object => ({
  choices: [{ message: { content: text, ...more }, finish_reason: 'stop' }],
});
const cutOff = (text: string): object => ({
  choices: [{ message: { content: text }, finish_reason: 'length' }],
});
const finish = (reason: object): Play =>
  chat(body => completion(body, 'x', { choices: [{ message: { content: 'x' }, ...reason }] }));
const schema = (answer: (body: Body) => unknown): Play => chat(body => body.response_format && answer(body));
const cached = (tokens: number): object => ({
  usage: { prompt_tokens: 900, completion_tokens: 1, prompt_tokens_details: { cached_tokens: tokens } },
});
const streamed =
  (text: string): Play =>
  (_, __, body) =>
    body?.stream ? text : undefined;
const deaf: Play = (path, _, body) => {
  if (!path.endsWith('completions') || !body) return undefined;
  if (body.response_format) return completion(body, textFor(body));
  return body.stream ? events('abc') : completion(body, 'abc');
};

/** Every second completion that `answer` has an answer to gets it. */
function everySecond(answer: (body: Body) => unknown): Play {
  let count = 0;
  return chat(body => {
    const own = answer(body);
    return own && ++count % 2 === 0 ? own : undefined;
  });
}
/** Answers without cached_tokens, and these texts at /metrics, one after the other. */
function silent(...texts: string[]): Play {
  let count = 0;
  return (path, _, body) => {
    if (path === '/metrics') return texts[Math.min(count++, texts.length - 1)];
    if (!body || body.stream) return undefined;
    return completion(body, textFor(body), { usage: { prompt_tokens: 900, completion_tokens: 1 } });
  };
}
const HITS = METRICS.replace('1024.0', '2000.0');
const old = (text: string): string => text.replaceAll('vllm:prefix', 'vllm:gpu_prefix');
const BLANK = `{"w": ${' '.repeat(400)}`;

// biome-ignore format: a row a line
const rows: Row[] = [
  ['answers', 'no choices', chat(() => ({ choices: [] })), {}, 'trouble', 'without choices', 'look at the log'],
  ['answers', 'HTML with 200', chat(() => '<html>'), {}, 'trouble', 'not JSON', 'look at the log'],
  ['answers', 'a template without system', chat((_, response) => response.writeHead(400).end('{"error":{"message":"System role not supported"}}')), {}, 'trouble', 'System role not supported', 'complains'],
  ['answers', 'full', chat((_, response) => response.writeHead(429).end()), {}, 'trouble', 'HTTP 429', '--max-num-queued-reqs'],
  ['answers', 'a key is asked for', chat((_, response) => response.writeHead(401).end()), {}, 'trouble', 'HTTP 401', 'FW_API_KEY'],
  ['answers', 'resets', chat((_, response) => response.destroy()), {}, 'trouble', 'closed before', 'look at the log'],
  ['answers', 'an enormous answer', chat((_, response) => response.end(Buffer.alloc(17 << 20, 32))), {}, 'trouble', 'larger than 4 MiB', 'look at the log'],
  ['answers', 'breaks at schemas', chat((body, response) => (body.response_format ? response.destroy() : undefined)), {}, 'trouble', 'some: connection closed', 'log'],
  ['answers', 'thinks', chat(body => completion(body, 'x', choices('x', { reasoning_content: 'Hm.' }))), {}, 'note', 'reasoning model', 'max_tokens'],
  ['finish_reason', 'none', finish({}), {}, 'trouble', 'none', 'cut off'],
  ['finish_reason', 'another', finish({ finish_reason: 'e\u001bos' }), {}, 'trouble', '"e os"', 'cut off'],
  ['usage', 'none', chat(body => completion(body, 'x', { usage: null })), {}, 'note', 'none', 'count tokens'],
  ['usage', 'sometimes', chat(body => (body.seed ? completion(body, 'x', { usage: {} }) : undefined)), {}, 'note', 'missing in 2 of 7 answers', 'count tokens'],
  ['guided decoding', 'ignored', undefined, { obey: false }, 'trouble', 'ignored: "no"', '--guided off'],
  ['guided decoding', 'JSON of its own', schema(body => completion(body, '{"answer":"no"}')), {}, 'trouble', 'ignored', '--guided off'],
  ['guided decoding', 'refused', chat((body, response) => (body.response_format ? response.writeHead(400).end('{"error":{"message":"unsupported"}}') : undefined)), {}, 'trouble', 'refused: HTTP 400: "unsupported"', '--structured-outputs-config'],
  ['guided decoding', 'shown to the model', schema(body => completion(body, `\`\`\`json\n${textFor(body)}\n\`\`\``)), {}, 'trouble', 'shown to the model, not enforced', 'gateway'],
  ['guided decoding', 'by chance', everySecond(body => body.response_format && completion(body, 'no')), {}, 'trouble', 'obeyed once, then not', '--guided off'],
  ['guided decoding', 'whitespace', schema(body => completion(body, BLANK, cutOff(BLANK))), {}, 'trouble', 'whitespace', 'disable_any_whitespace'],
  ['guided decoding', 'thinks too long', schema(body => completion(body, '', cutOff('<think>Well'))), {}, 'note', 'ended before its JSON', 'max_tokens'],
  ['seed', 'not the same', everySecond(body => body.seed && completion(body, 'xyz')), {}, 'note', 'from the beginning', 'VLLM_BATCH_INVARIANT'],
  ['seed', 'not the same at the end', everySecond(body => body.seed && completion(body, `${textFor(body)}!`)), {}, 'note', 'after 64 characters', 'VLLM_BATCH_INVARIANT'],
  ['seed', 'no text', chat(body => body.seed && completion(body, '')), {}, 'note', 'not known', ''],
  ['seed', 'and no stream to compare with', streamed('{}'), {}, 'ok', /^the same$/, ''],
  ['seed', 'whatever the seed', deaf, {}, 'note', 'another seed gives the same', 'temperature'],
  ['prefix cache', 'off', chat(body => completion(body, 'x', cached(0))), {}, 'note', 'none of 900 tokens', '--enable-prefix-caching'],
  ['prefix cache', 'off, by its settings', silent(METRICS.replace('caching="True"', 'caching="False"')), {}, 'note', 'off', '--enable-prefix-caching'],
  ['prefix cache', 'on, by /metrics', silent(METRICS, HITS), {}, 'ok', 'on, by /metrics', ''],
  ['prefix cache', 'on, by old names', silent(old(METRICS), old(HITS)), {}, 'ok', 'on, by /metrics', ''],
  ['prefix cache', 'no hit', silent(METRICS), {}, 'note', 'no hit', '--enable-prefix-caching'],
  ['prefix cache', 'nothing told', silent('vllm:kv_cache_usage_perc 0'), {}, 'note', 'not known', '--enable-prompt-tokens-details'],
  ['speed', 'an error in the stream', streamed('data: {"error":{"message":"engine died"}}\n\ndata: [DONE]\n\n'), {}, 'note', 'engine died', ''],
  ['speed', 'no stream', streamed(JSON.stringify({ choices: [] })), {}, 'note', 'no stream of completion chunks', ''],
  ['speed', 'a stream without text', streamed(events('')), {}, 'note', 'without text', ''],
  ['speed', 'a refused stream', (_, response, body) => (body?.stream ? response.writeHead(400).end('no streams') : undefined), {}, 'note', 'HTTP 400: "no streams"', ''],
  ['speed', 'all at once', at('/nothing', ''), {}, 'ok', '64 tokens came at once', ''],
];
test.each(rows)('%s: %s', (...row) => expectRow(row));

test('a stream: first and last text by the bytes that had come, the rate by the tokens between', () => {
  const body = Buffer.from(events('Ärger'));
  const endOf = (text: string) => body.indexOf('\n', body.indexOf(text));
  const arrivals = [
    { at: 40, bytes: endOf('assistant') },
    { at: 100, bytes: body.indexOf('Är') + 1 },
    { at: 140, bytes: endOf('Är') },
    { at: 840, bytes: endOf('ger') + 1 },
    { at: 900, bytes: body.length },
  ];
  const read = readStream({ status: 200, retryAfter: undefined, body, took: 900, arrivals }, undefined);
  if (isSilence(read)) throw new Error(read.cause);
  expect(read).toMatchObject({ text: 'Ärger', finish: 'stop', usage: { completion: 64 }, took: 900 });
  expect([read.first, read.last, rateOf(read)]).toEqual([140, 840, 90]);
  expect(rateOf({ ...read, last: 140 })).toBeUndefined();
  expect(rateOf({ ...read, usage: undefined })).toBeUndefined();
});
