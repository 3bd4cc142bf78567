/** From what was seen to what it means: every check, in the order in which a person would ask. */
import { EXIT } from '../../../engine/core/item/failure.ts';
import { number } from '../../../engine/core/item/wording.ts';
import { answering, rateOf, told } from './check-answers.ts';
import { reach } from './check-reach.ts';
import { serving } from './check-serving.ts';
import {
  answers,
  type Check,
  type Facts,
  type Finding,
  isSilence,
  type Mark,
  quoted,
  shown,
} from './endpoint-facts.ts';

export interface Report {
  endpoints: Examined[];
  /** between the endpoints */
  together: Finding[];
  exit: number;
}

/** One endpoint as it is told: texts are safe to show. Figures are missing where they are not known. */
export interface Examined {
  url: string;
  reachable: boolean;
  /** it answers what it is asked, as far as a run needs it */
  usable: boolean;
  server: string;
  version?: string;
  model?: string;
  figures: {
    limit: number;
    context?: number;
    batch?: number;
    latency_ms?: number;
    ttft_ms?: number;
    tokens_per_second?: number;
    clock_skew_ms?: number;
    calls: number;
  };
  findings: Finding[];
}

export function checks(env: NodeJS.ProcessEnv): Check[] {
  return [...reach(env), ...serving, ...answering];
}

/** `env` is where a proxy may be named. */
export function judge(all: readonly Facts[], env: NodeJS.ProcessEnv): Report {
  const endpoints = all.map(facts => examined(facts, checks(env)));
  const between = together(all);
  const findings = [...endpoints.flatMap(endpoint => endpoint.findings), ...between];
  const exit = endpoints.every(({ usable }) => !usable)
    ? EXIT.unavailable
    : findings.some(({ mark }) => mark === 'trouble')
      ? EXIT.failed
      : EXIT.ok;
  return { endpoints, together: between, exit };
}

function examined(facts: Facts, all: readonly Check[]): Examined {
  const { setting, key, kind, version, model, trivial, streamed, context, batch, skew, calls } = facts;
  const told = streamed === undefined || isSilence(streamed) ? undefined : streamed;
  return {
    url: setting.url,
    reachable: facts.hindrance === undefined,
    usable: trivial !== undefined && !isSilence(trivial),
    server: kind,
    version: version === undefined ? undefined : shown(version, key),
    model: model === undefined ? undefined : shown(model.id, key),
    figures: {
      limit: setting.limit,
      context,
      batch,
      latency_ms: trivial === undefined || isSilence(trivial) ? undefined : rounded(trivial.took),
      ttft_ms: rounded(told?.first),
      tokens_per_second: told && rounded(rateOf(told)),
      clock_skew_ms: rounded(skew),
      calls,
    },
    findings: all.flatMap(({ name, expected, look }) => {
      const seen = look(facts);
      return seen === undefined ? [] : [{ check: name, expected, ...seen }];
    }),
  };
}

function rounded(value: number | undefined): number | undefined {
  return value === undefined ? undefined : Number(value.toPrecision(4));
}

// Checks between endpoints: a run takes them for one and the same, so what differs between them differs in its results.

/** Beyond this, who looks at the figures of one endpoint would be misled about another. */
const UNEQUAL = 1.5;

/** Findings about the usable ones among them; none where there are less than two. */
export function together(all: readonly Facts[]): Finding[] {
  const usable = all.filter(({ hindrance }) => hindrance === undefined);
  if (usable.length < 2) return [];
  const model = sameModel(usable);
  // of different models nobody expects the same weights, or the same words
  const alike = model.mark === 'trouble' ? [] : usable;
  return [
    model,
    same(
      alike,
      'weights',
      'the same weights behind the name',
      facts => text(facts, facts.model?.root),
      'trouble',
      {
        advice: 'serve the same weights everywhere: otherwise an answer depends on the endpoint',
      },
    ),
    same(usable, 'context', 'the same context length', ({ context }) => context && number(context), 'note', {
      advice: 'set the same --max-model-len: a prompt that fits one endpoint is refused by another',
    }),
    same(
      usable,
      'version',
      'the same server in the same version',
      facts => `${facts.kind} ${text(facts, facts.version) ?? ''}`.trim(),
      'note',
      {
        advice: 'one version everywhere, where results are to be comparable',
      },
    ),
    sameText(alike),
    speeds(usable),
  ].filter(finding => finding !== undefined);
}

function text({ key }: Facts, words: string | undefined): string | undefined {
  return words === undefined ? undefined : shown(words, key, 120);
}

function sameModel(usable: readonly Facts[]): Finding {
  const expected = 'one model that all of them serve, or --model';
  const [first, ...others] = usable.map(({ models }) => new Set(models.map(({ id }) => id)));
  const shared = [...(first ?? [])].filter(id => others.every(models => models.has(id)));
  const { key, wanted } = usable[0] as Facts;
  const check = 'model';
  const missing = usable.filter(({ model }) => model === undefined);
  const names = [...new Set(usable.flatMap(({ model }) => model?.id ?? []))];
  if (wanted !== undefined && names.length > 1) {
    const found = `served as ${names.map(name => shown(name, key)).join(', ')}`;
    const advice = 'let all serve it by one name, for a run asks by one';
    return { check, mark: 'trouble', expected, found, advice };
  }
  if (wanted !== undefined) {
    const found =
      missing.length === 0 ? 'all serve it' : `${missing.length} of ${usable.length} do not serve it`;
    const advice = 'take those out, or let them serve it: a run continues without them';
    return missing.length === 0
      ? { check, mark: 'ok', expected, found }
      : { check, mark: 'trouble', expected, found, advice };
  }
  if (shared.length === 1)
    return { check, mark: 'ok', expected, found: `all serve ${shown(shared[0] as string, key)}` };
  const found = shared.length === 0 ? 'none that all serve' : `${shared.length} that all serve`;
  return {
    check,
    mark: 'trouble',
    expected,
    found,
    advice: 'say which is meant: --model NAME; a run does not guess',
  };
}

/** Says who differs; undefined where fewer than two have a value. */
function same(
  usable: readonly Facts[],
  check: string,
  expected: string,
  valueIn: (facts: Facts) => string | undefined | 0,
  mark: Mark,
  { advice }: { advice: string },
): Finding | undefined {
  const byValue = new Map<string, string[]>();
  for (const facts of usable) {
    const value = valueIn(facts);
    if (value) byValue.set(value, [...(byValue.get(value) ?? []), facts.setting.url]);
  }
  const [only, ...others] = byValue.keys();
  const several = [...byValue.values()].reduce((sum, urls) => sum + urls.length, 0) > 1;
  if (only === undefined || !several) return undefined;
  if (others.length === 0) return { check, mark: 'ok', expected, found: only };
  const found = [...byValue].map(([value, urls]) => `${value}: ${urls.join(', ')}`).join('; ');
  return { check, mark, expected, found, advice };
}

/** The same request with the same seed was asked of all. */
function sameText(usable: readonly Facts[]): Finding | undefined {
  const texts = usable.flatMap(facts =>
    answers(facts.same)
      .slice(0, 1)
      .map(({ text }) => ({ text, facts })),
  );
  const [first] = texts;
  if (first === undefined || texts.length < 2) return undefined;
  const check = 'answers';
  const expected = 'the same request, the same answer';
  const other = texts.find(({ text }) => text !== first.text);
  if (other === undefined) return { check, mark: 'ok', expected, found: 'the same from all' };
  const found = `${quoted(first.text, first.facts.key, 40)} from ${first.facts.setting.url}, ${quoted(other.text, other.facts.key, 40)} from ${other.facts.setting.url}`;
  return { check, mark: 'note', expected, found };
}

function speeds(usable: readonly Facts[]): Finding | undefined {
  const rates = usable.flatMap(({ streamed, setting }) => {
    const rate = streamed === undefined || isSilence(streamed) ? undefined : rateOf(streamed);
    return rate === undefined ? [] : [{ rate, url: setting.url }];
  });
  if (rates.length < 2) return undefined;
  const sorted = rates.sort((one, other) => one.rate - other.rate);
  const [slowest, fastest] = [sorted[0], sorted.at(-1)] as [
    { rate: number; url: string },
    { rate: number; url: string },
  ];
  const check = 'speed';
  const expected = `tokens/s for one call within a factor of ${UNEQUAL}`;
  const found = `${told(slowest.rate)} (${slowest.url}) to ${told(fastest.rate)} (${fastest.url})`;
  return fastest.rate <= UNEQUAL * slowest.rate
    ? { check, mark: 'ok', expected, found }
    : {
        check,
        mark: 'note',
        expected,
        found,
        advice: 'a run gives each what it can take; other users, or another card?',
      };
}
