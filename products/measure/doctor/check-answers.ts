/** Checks of how an endpoint answers: whole, as the schema says, again the same, and how fast. */

import { seconds, unknownFields } from '../../../engine/asking/endpoints/endpoint-words.ts';
import { labelsOf, type Page, sumOf } from '../../../engine/asking/endpoints/server-load.ts';
import { counted, number } from '../../../engine/core/item/wording.ts';
import { isObject } from '../../../engine/core/json/pointer.ts';
import {
  type Answer,
  answers,
  type Check,
  type Facts,
  type Guided,
  isSilence,
  note,
  type Observation,
  ok,
  quoted,
  type Silence,
  shown,
  trouble,
} from './endpoint-facts.ts';

export const answering: Check[] = [
  { name: 'answers', expected: 'a completion', look: answersAtAll },
  {
    name: 'finish_reason',
    expected: 'stop or length with each answer',
    look(facts) {
      const all = said(facts);
      if (all.length === 0) return undefined;
      const [first] = all.filter(({ finish }) => finish !== 'stop' && finish !== 'length');
      if (first === undefined) return ok('with each answer');
      const found = first.finish === undefined ? 'none' : quoted(first.finish, facts.key, 40);
      return trouble(
        found,
        'update the server: without it an answer that was cut off looks like a whole one',
      );
    },
  },
  {
    name: 'usage',
    expected: 'tokens counted with each answer',
    look(facts) {
      const all = said(facts);
      if (all.length === 0) return undefined;
      const lacking = all.filter(({ usage }) => !usage?.prompt || usage.completion === undefined);
      if (lacking.length === 0) return ok('with each answer');
      const found =
        lacking.length === all.length
          ? 'none'
          : `missing in ${lacking.length} of ${counted(all.length, 'answer')}`;
      return note(found, 'the account cannot count tokens; update the server, or the gateway before it');
    },
  },
  { name: 'guided decoding', expected: 'answers that obey the schema of response_format', look: guided },
  { name: 'seed', expected: 'the same request twice, the same answer', look: seed },
  { name: 'prefix cache', expected: 'a prompt that is asked again is not computed again', look: prefixCache },
  {
    name: 'latency',
    expected: 'a short answer within a second',
    look({ trivial }) {
      if (trivial === undefined || isSilence(trivial)) return undefined;
      const found = `${seconds(trivial.took)} for an answer of a few tokens`;
      return trivial.took <= 1_000 ? ok(found) : note(`${found}: it is busy, far away, or was just loading`);
    },
  },
  { name: 'speed', expected: 'text that comes as it is made', look: speed },
];

function said({ trivial, guided, same, prefix }: Facts): Answer[] {
  return answers([trivial, ...guided.map(({ outcome }) => outcome), ...same, ...prefix]);
}

function answersAtAll({ trivial, key, guided, same, prefix }: Facts): Observation | undefined {
  if (trivial === undefined) return undefined;
  if (isSilence(trivial)) return trouble(shown(trivial.cause, key, 300), adviceOn(trivial));
  const later = [...guided.map(({ outcome }) => outcome), ...same, ...prefix].filter(isSilence);
  const broken = later.find(
    ({ late, status }) => late || status === undefined || status === 200 || status >= 500,
  );
  if (broken)
    return trouble(
      `some: ${shown(broken.cause, key, 200)}`,
      broken.late ? 'a slow server needs a longer --timeout' : 'look at the log of the server',
    );
  const thinking = [trivial, ...answers(same)].some(({ thought }) => thought);
  if (thinking)
    return note(
      'a reasoning model: its thinking counts as tokens',
      'give agents a larger max_tokens in their sampling, or switch thinking off in the server',
    );
  return ok('whole');
}

function adviceOn({ late, status = 0 }: Silence): string {
  if (late)
    return 'look at the log of the server: it may be loading or stuck; a slow one needs a longer --timeout';
  if (status === 401 || status === 403)
    return 'put the key into FW_API_KEY, or name its variable: --api-key-env NAME';
  if (status === 429 || status === 503)
    return 'it is full, or loads: ask again later; how many it lets wait is its --max-num-queued-reqs';
  return status >= 400 && status < 500
    ? 'fix what the server complains about: a run sends the same requests'
    : 'look at the log of the server: a run would get no answer either';
}

function guided({ guided, kind, key }: Facts): Observation | undefined {
  if (guided.length === 0) return undefined;
  const refused = guided.map(({ outcome }) => outcome).find(isSilence);
  if (refused?.late) return undefined;
  const without = 'or go without: --guided off (answers are checked and asked again all the same)';
  if (
    refused &&
    (refused.status === 400 || refused.status === 422) &&
    unknownFields(refused.cause).length > 0
  )
    return note(
      `not known: ${shown(refused.cause, key, 200)}`,
      'a run asks it without schemas, and checks answers all the same',
    );
  if (refused)
    return trouble(
      `refused: ${shown(refused.cause, key, 200)}`,
      `${kind === 'vLLM' ? 'another backend: --structured-outputs-config \'{"backend": "guidance"}\'' : 'update the server'}, ${without}`,
    );
  const verdicts = guided.map(judged);
  const obeyed = verdicts.filter(one => one === 'obeyed').length;
  if (obeyed === guided.length) return ok('two schemas that no model could guess were obeyed');
  const shownText = quoted(answerText(guided[verdicts.findIndex(one => one !== 'obeyed')]), key);
  if (verdicts.includes('whitespace'))
    return trouble(
      'the answer runs on in whitespace until max_tokens',
      kind === 'vLLM'
        ? '--structured-outputs-config \'{"disable_any_whitespace": true}\''
        : `update the server, ${without}`,
    );
  if (verdicts.includes('thinking'))
    return note(
      `not known: the answer ended before its JSON (${shownText})`,
      'a model that thinks first needs a larger max_tokens in the sampling of its agents',
    );
  const how =
    obeyed > 0
      ? 'obeyed once, then not'
      : verdicts.includes('wrapped')
        ? 'shown to the model, not enforced'
        : 'ignored';
  return trouble(
    `${how}: ${shownText}`,
    `${kind === 'vLLM' ? 'update vLLM' : 'update the server'}; a gateway before it may drop response_format; ${without}`,
  );
}

type Obedience = 'obeyed' | 'whitespace' | 'thinking' | 'wrapped' | 'ignored';

/** The text alone must be the object: a fence or a sentence around it means that the model was only told. */
function judged({ outcome, key, words }: Guided): Obedience {
  const { text, finish, thought } = outcome as Answer;
  if (fits(text)) return 'obeyed';
  if (finish === 'length') {
    if (text.length > 20 && text.replace(/\s/g, '').length < text.length / 2) return 'whitespace';
    if (thought || text.trim() === '' || text.trimStart().startsWith('<think')) return 'thinking';
  }
  return text.includes(key) && words.some(word => text.includes(word)) ? 'wrapped' : 'ignored';

  function fits(json: string): boolean {
    try {
      const value: unknown = JSON.parse(json);
      return isObject(value) && Object.keys(value).length === 1 && words.includes(value[key] as string);
    } catch {
      return false;
    }
  }
}

function answerText(guided: Guided | undefined): string {
  return guided === undefined || isSilence(guided.outcome) ? '' : guided.outcome.text;
}

function seed({ same, streamed, kind }: Facts): Observation | undefined {
  const [first, second] = answers(same);
  if (first === undefined || second === undefined) return undefined;
  if (first.text === '' && second.text === '') return note('not known: two answers without text');
  if (first.text !== second.text) {
    let alike = 0;
    while (alike < first.text.length && first.text[alike] === second.text[alike]) alike++;
    return note(
      `two answers, different ${alike > 0 ? `after ${counted(alike, 'character')}` : 'from the beginning'}: ` +
        'asking again gives other results; keep the ledger',
      kind === 'vLLM' ? 'VLLM_BATCH_INVARIANT=1 vllm serve …, at the cost of speed' : undefined,
    );
  }
  const other = streamed === undefined || isSilence(streamed) ? '' : streamed.text;
  if (other === '') return ok('the same');
  if (other !== first.text) return ok('the same; another seed gives another');
  return note(
    'the same, and another seed gives the same again',
    'check that temperature is obeyed: an answer that is asked again would come back unchanged',
  );
}

function prefixCache({ prefix, metrics: { before, after }, kind, model }: Facts): Observation | undefined {
  const [first, second] = answers(prefix);
  if (first === undefined || second === undefined || model === undefined) return undefined;
  const whole = second.usage?.prompt ?? 0;
  const cached = second.usage?.cached;
  const settings =
    before === undefined ? [] : labelsOf(before, 'vllm:cache_config_info', 'enable_prefix_caching');
  const off = settings.includes('False');
  const advice =
    kind === 'vLLM'
      ? 'vllm serve --enable-prefix-caching: calls of a chain share most of their prompt'
      : undefined;
  if (cached !== undefined && cached > 0)
    return ok(`${number(cached)} of ${number(whole)} tokens came from it`);
  if (off) return note('off', advice);
  if (cached === 0) return note(`none of ${number(whole)} tokens came from it`, advice);
  const names = ['', 'gpu_'].flatMap(old => [
    `vllm:${old}prefix_cache_hits_total`,
    `vllm:${old}prefix_cache_hits`,
  ]);
  const hitsIn = (page: Page | undefined) =>
    (page === undefined ? undefined : sumOf(page, names)) ?? Number.NaN;
  const hits = hitsIn(after) - hitsIn(before);
  const untold = 'vllm serve --enable-prompt-tokens-details, so that the account can tell the cached share';
  if (hits >= 16) return ok(`on, by /metrics; answers do not tell (${untold})`);
  if (hits >= 0) return note('no hit in /metrics', advice);
  return note('not known: the answers do not tell', kind === 'vLLM' ? untold : undefined);
}

function speed({ streamed, key }: Facts): Observation | undefined {
  if (streamed === undefined) return undefined;
  if (isSilence(streamed))
    return streamed.late
      ? undefined
      : note(`no stream: ${shown(streamed.cause, key, 160)}; a run does not need one`);
  const { first, last, usage } = streamed;
  if (first === undefined || last === undefined) return note('a stream without text');
  const rate = rateOf(streamed);
  const tokens = usage?.completion;
  if (rate === undefined)
    return ok(
      `first token after ${seconds(first)}; ${tokens === undefined ? 'the text' : counted(tokens, 'token')} came at once`,
    );
  return ok(`first token after ${seconds(first)}, then ${told(rate)} tokens/s for one call alone`);
}

/** Tokens after the first, by the seconds since: 1000 / TPOT. Undefined where too little came to say. */
export function rateOf({
  first,
  last,
  usage,
}: {
  first?: number;
  last?: number;
  usage: Answer['usage'];
}): number | undefined {
  const tokens = usage?.completion;
  if (first === undefined || last === undefined || tokens === undefined) return undefined;
  return tokens >= 8 && last - first >= 5 ? ((tokens - 1) / (last - first)) * 1000 : undefined;
}

/** Tokens/s, to three figures. */
export function told(rate: number): string {
  return rate < 100 ? rate.toPrecision(3) : number(Math.round(rate));
}
