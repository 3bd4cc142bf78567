/** The page of any line: it says what the line holds, nothing of the line is markup, and it is never large. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { applyEdits, type Edit } from '../../engine/answers/entries.ts';
import { packagedAgents } from '../../engine/asking/agents/load-agents.ts';
import { type Advice, advisor } from '../../engine/audit/advice.ts';
import type { Rejected } from '../../engine/core/item/item.ts';
import { isObject, type JsonObject } from '../../engine/core/json/pointer.ts';
import { visibleLines } from '../../engine/core/json/visible.ts';
import { startSimulator } from '../../products/simulator/simulator.ts';
import { curlCommand } from '../../products/view/item/curl.ts';
import { areOf, markedText } from '../../products/view/item/marks.ts';
import { type Hidden, Writer } from '../../products/view/item/writer.ts';
import { type ItemContext, itemParts, openAgents } from '../../products/view/item-page.ts';
import { openLedgerFacts } from '../../products/view/ledger-facts.ts';
import { stages } from '../../stages/index.ts';
import { runs } from '../all.ts';
import { folder, ROOT, shell } from '../fw.ts';
import { holds } from '../integrity/property.ts';
import { anyText } from '../ledger/records.ts';

const advice: Advice = await advisor(stages);
const LINKS = {
  raw: '/item/0/raw',
  filter: (column: string, value: string) => `/?${new URLSearchParams([[column, value]])}`,
};
const BARE: ItemContext = {
  isRow: false,
  facts: null,
  agents: null,
  schema: null,
  hidden: null,
  advice,
  links: LINKS,
};

const pageOf = (line: JsonObject, more: Partial<ItemContext> = {}, text = JSON.stringify(line)): string =>
  itemParts(line, text, { ...BARE, ...more }).text;

/** The tags that stand in a page, each with its attributes. */
const TAG = /<(\/?)([a-z][a-z0-9]*)((?:\s[a-z-]+(?:="[^"<>]*")?)*)>/g;
const OWN = new Set(
  'article section h2 h3 p pre table thead tbody tr th td ul ol li details summary span b i code a div del ins img'.split(
    ' ',
  ),
);
const OWN_ATTRIBUTES = new Set([
  'class',
  'id',
  'href',
  'src',
  'alt',
  'title',
  'scope',
  'open',
  'tabindex',
  'data-at',
]);

/** Whether all markup of a page is ours, and is closed. */
function expectOwn(page: string): void {
  const rest = page.replaceAll(TAG, '');
  expect(rest).not.toMatch(/[<>]/);
  const open: string[] = [];
  for (const [, end, name, attributes] of page.matchAll(TAG)) {
    expect(OWN.has(name as string), name).toBe(true);
    for (const [, attribute, value] of (attributes as string).matchAll(/\s([a-z-]+)(?:="([^"]*)")?/g)) {
      expect(OWN_ATTRIBUTES.has(attribute as string), attribute).toBe(true);
      if (attribute === 'href') expect(value).toMatch(/^\/(?:\?|item\/)/);
      if (attribute === 'src') expect(value).toMatch(/^data:image\/(?:png|jpeg|gif|webp);base64,[\w+/=]+$/);
    }
    if (name === 'img') continue;
    if (end === '') open.push(name as string);
    else expect(open.pop()).toBe(name);
  }
  expect(open).toEqual([]);
  // what a browser would obey or hide
  expect(rest).not.toMatch(/(?![\n\t\u200c\u200d])[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Cf}]/u);
}

const unescaped = (text: string): string =>
  text
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&');

const textIn = (page: string): string => unescaped(page.replaceAll(TAG, ' '));

describe('each line of the fixtures', () => {
  const files = readdirSync(join(ROOT, 'fixtures'), { recursive: true, encoding: 'utf8' })
    .filter(name => /\.(?:ndjson|jsonl)$/.test(name) && !name.includes('expected'))
    .sort();
  test.each(files)('%s', async name => {
    const agents = await openAgents(packagedAgents());
    for (const text of readFileSync(join(ROOT, 'fixtures', name), 'utf8')
      .split('\n')
      .slice(0, runs(30, 200))) {
      let line: unknown;
      try {
        line = JSON.parse(text);
      } catch {
        continue;
      }
      if (!isObject(line)) continue;
      for (const isRow of [false, true]) {
        const page = pageOf(line, { isRow, agents }, text);
        expectOwn(page);
        expect(page.length).toBeLessThan(1_000_000);
        if (typeof line.prompt === 'string' && line.prompt.length < 10_000)
          expect(textIn(page)).toContain(visibleLines(line.prompt).join('\n').slice(0, 1_000));
      }
    }
  });
});

const items = readFileSync(join(ROOT, 'fixtures/explain/items.ndjson'), 'utf8').trim().split('\n');
const parsed = items.map(text => JSON.parse(text) as JsonObject);

describe('an item', () => {
  const [whole] = parsed as [JsonObject];

  test('says where each value came from, as fw explain does', () => {
    const page = textIn(pageOf(whole));
    expect(page).toContain('rung  defaulted');
    expect(page).toMatch(/Income: \$38,000, "fixed"/);
    expect(page).toContain('1 answer not accepted');
    expect(page).toMatch(/no-json-found\s+: expected a JSON object/);
    expect(page).toMatch(/null-default put a default/);
    expect(page).toMatch(/What it was shown is not in the line: .*--ledger DIR.*--agents FOLDER/);
  });

  test('that failed says of what, what that means, and what may be done', () => {
    const failure = {
      stage: 'chain',
      agent: 'regulatory',
      code: 'no-valid-answer',
      message: 'regulatory: 3 attempts <b>',
    };
    const page = textIn(pageOf({ ...whole, decision: undefined, failure }));
    expect(page).toMatch(/Failed in\s+chain\s+, at\s+regulatory\s+:\s+no-valid-answer/);
    expect(page).toContain('regulatory: 3 attempts <b>');
    expect(page).toContain('fw chain --retry-failed');
  });

  test('has the marks of its changes in the text, and words for who hears it', () => {
    const [, second] = whole.steps as JsonObject[];
    const page = pageOf({ id: 'a', prompt: 'p', steps: [second] });
    expect(page).toContain('<del title="fence">');
    expect(page).toContain('[put in, illegal-escape: ');
  });

  test('shows what agents were sent as the files make it, and their complaint', async () => {
    const page = textIn(pageOf(whole, { agents: await openAgents(packagedAgents()) }));
    expect(page).toContain('You are the risk manager of a lender');
    expect(page).toContain('Made again from the agent files');
    expect(page).toMatch(/Then it was told: That answer cannot be used: there was no JSON object in it/);
    expect(page).toContain('The schema of the answer');
  });
});

describe('with the ledger of the run', () => {
  /** An item that was answered, its text, and the facts of its calls. */
  async function asked(options: string, prompt: JsonObject, faults = '') {
    const at = folder();
    const { url, close } = await startSimulator({ port: 0, seed: 1, ...(faults !== '' && { faults }) });
    const stdin = `${JSON.stringify({ id: 'a', ...prompt })}\n`;
    const ran = await shell(`fw chain ${options} --endpoint ${url} --ledger led`, { cwd: at, stdin });
    await close();
    const facts = openLedgerFacts(join(at, 'led'));
    await facts.read();
    const text = ran.stdout.trim();
    expect(text, ran.stderr).not.toBe('');
    return { text, line: JSON.parse(text) as Asked, facts };
  }
  type Asked = JsonObject & { steps: Step[]; decision?: Step };
  type Step = { agent: string; calls: string[]; rejected?: Rejected[] };
  const messagesOf = (request: string | null | undefined): unknown[] =>
    (JSON.parse(request as string) as { messages: unknown[] }).messages;

  test('it has the request, the tries and the times of each call', async () => {
    const { text, line, facts } = await asked('', { prompt: 'May they? <b>' });
    const page = textIn(pageOf(line, { facts }, text));
    expect(page).toContain('As it went over the wire, from the ledger.');
    expect(page).toContain('May they? <b>');
    expect(page).toContain('1 try in the ledger');
    expect(page).toMatch(/curl -sS 'http:\/\/127\.0\.0\.1:\d+\/v1\/chat\/completions'/);
    expect(page).toContain('Bearer $API_KEY');
    facts.close();
  });

  test.each([
    ['', { prompt: 'May they?' }],
    ['--topology independent', { prompt: 'May they?' }],
    ['--topology peer --labels anonymous', { prompt: 'May they?' }],
    [
      '',
      { messages: [{ role: 'user', content: 'May "they"?\n' }], ordering: ['risk_manager', 'data_science'] },
    ],
    [
      '',
      {
        messages: [
          { role: 'user', content: [{ type: 'text', text: 'x' }] },
          { role: 'assistant', content: 'y' },
        ],
      },
    ],
  ])('the messages made again are those that were sent: %s %j', async (options, prompt) => {
    const { line, facts } = await asked(options, prompt);
    const known = await openAgents(packagedAgents());
    const all = [...line.steps.entries(), ...(line.decision ? [[-1, line.decision] as const] : [])];
    expect(all.length).toBeGreaterThan(1);
    for (const [at, { calls }] of all) {
      const made = known.shown.messagesTo(line as never, at < 0 ? '/decision' : `/steps/${at}`);
      expect(made).toEqual(messagesOf(facts.triesOf(calls[0] as string)[0]?.request));
    }
    facts.close();
  });

  test('what an agent was told of a refused answer is what was sent', async () => {
    const { line, facts } = await asked(
      '--attempts 8',
      { prompt: 'May they?' },
      'null=0.4,truncated=0.2,zero=0.2',
    );
    const known = await openAgents(packagedAgents());
    let told = 0;
    for (const { agent, calls, rejected = [] } of line.steps) {
      for (const [nth, refused] of rejected.entries()) {
        const sent = messagesOf(facts.triesOf(calls[nth + 1] as string)[0]?.request);
        const complaint = known.shown.complaintAbout(agent, refused);
        expect(sent.length > 2 ? (sent.at(-1) as { content: string }).content : null).toBe(complaint);
        told += complaint === null ? 0 : 1;
      }
    }
    expect(told).toBeGreaterThan(0);
    facts.close();
  });
});

describe('other lines', () => {
  test('of batches, in and out', () => {
    const asks = pageOf({
      custom_id: 'c',
      method: 'POST',
      url: '/v1/chat/completions',
      body: { model: 'm', messages: [{ role: 'user', content: 'Hi <i>' }], max_tokens: 5 },
    });
    expect(textIn(asks)).toMatch(/Hi <i>.*\$ENDPOINT/s);
    const message = { role: 'assistant', content: '{"yes":true}', reasoning_content: 'I thought.' };
    const body = {
      model: 'm',
      choices: [{ message, finish_reason: 'stop' }],
      usage: { prompt_tokens: 5, completion_tokens: 2 },
    };
    const said = textIn(pageOf({ custom_id: 'c', response: { status_code: 200, body }, error: null }));
    for (const part of [
      'Reasoning, 10 characters',
      'I thought.',
      '{"yes":true}',
      '5 tokens in',
      'ended by',
      'yes',
    ])
      expect(said).toContain(part);
    const failed = textIn(
      pageOf({ custom_id: 'c', response: null, error: { code: 'x', message: 'no place' } }),
    );
    expect(failed).toMatch(/Failed in\s+batch/);
  });

  test('of batches whose answers are in items or in blocks', () => {
    const asks = pageOf({
      ...{ custom_id: 'c', method: 'POST', url: '/v1/responses' },
      body: { model: 'm', instructions: 'Be <b>.', input: 'Hi <i>' },
    });
    expect(textIn(asks)).toMatch(/Be <b>.*Hi <i>/s);
    const usage = { input_tokens: 5, output_tokens: 2 };
    const items = [
      { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'I thought.' }] },
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Yes <b>' }] },
      { type: 'function_call', name: 'weather', arguments: '{}' },
    ];
    const blocks = [
      { type: 'thinking', thinking: 'I thought.', signature: 's' },
      { type: 'text', text: 'Yes <b>' },
      { type: 'tool_use', id: 't', name: 'weather', input: {} },
    ];
    for (const body of [
      { object: 'response', status: 'completed', model: 'm', output: items, usage },
      { type: 'message', role: 'assistant', model: 'm', content: blocks, stop_reason: 'tool_use', usage },
    ]) {
      const said = textIn(pageOf({ custom_id: 'c', response: { status_code: 200, body }, error: null }));
      for (const part of ['Reasoning, ', 'I thought.', 'Yes <b>', 'weather', '5 tokens in', '2 tokens out'])
        expect(said).toContain(part);
    }
  });

  test('of a gateway', () => {
    const request = {
      path: '/v1/chat/completions',
      body: { model: 'm', messages: [{ role: 'user', content: 'Hi' }] },
    };
    const page = textIn(
      pageOf({
        key: 'k',
        outcome: 'answer',
        time: '2026-01-01T00:00:00Z',
        endpoint: 'http://u:secret@gpu/v1',
        model: 'm',
        item: 'r1',
        agent: '/v1/chat/completions',
        round: 0,
        attempt: 1,
        ms: 1500,
        ttft: 200,
        caller: 'anna',
        finish: 'stop',
        usage: { prompt: 4, completion: 1 },
        answer: '{"choices":[{"message":{"content":"Hello"}}]}',
        request,
        crc: 'x',
      }),
    );
    for (const part of [
      '1.50 s',
      'first token after 0.20 s',
      'asked by anna',
      'Hello',
      "curl -sS 'http://gpu/v1/chat/completions'",
    ])
      expect(page).toContain(part);
    expect(page).not.toContain('secret');
  });

  test('images of data are shown, others are named and not fetched', () => {
    const png =
      'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
    const image = (url: string) => ({ type: 'image_url', image_url: { url } });
    const urls = [
      `data:image/png;base64,${png}`,
      'https://example.com/a.png',
      'data:image/svg+xml;base64,PHN2Zy8+',
      'data:image/png;base64,"><script>',
      `data:image/png;base64,${'A'.repeat(500_000)}`,
      'javascript:alert(1)',
    ];
    const page = pageOf({
      id: 'a',
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Look' }, ...urls.map(image)] }],
    });
    expectOwn(page);
    expect([...page.matchAll(/<img /g)]).toHaveLength(1);
    expect(textIn(page)).toContain('https://example.com/a.png');
    expect(textIn(page)).toContain('too large for this page');
  });
});

describe('what a judge must not see', () => {
  const mask = (text: string): string => text.replaceAll('female', '▒');
  const hidden = (columns: string[], hidesAnswers = false): Hidden => ({
    has: name => columns.includes(name),
    mask,
    hidesAnswers,
  });
  const line = {
    id: 'a',
    input: { gender: 'female', age: '40' },
    prompt: 'A female of 40',
    steps: [
      {
        agent: 'x',
        output: { decision: 'deny', why: 'female' },
        raw: '{"decision":"deny","why":"fem"+"ale"}',
        rung: 'repaired',
        saw: 'clean',
        repairs: [{ rule: 'r', offset: 30, cut: '"+"', put: '' }],
        calls: [],
        attempts: 2,
        rejected: [{ raw: 'female!', code: 'c', message: 'm female' }],
      },
    ],
  };

  test('stands nowhere on the page', () => {
    const page = pageOf(line, {
      hidden: hidden(['in.gender']),
      links: { ...LINKS, raw: null, filter: () => null },
    });
    expect(page).not.toContain('female');
    expect(page).toContain('A ▒ of 40');
    expect(page).not.toContain('curl');
  });

  test('may be what was answered', () => {
    const page = pageOf(line, { hidden: hidden(['step.x.decision'], true) });
    expect(page).not.toContain('deny');
    expect(page).toContain('What it said is not shown');
  });
});

describe('any line', () => {
  const odd = fc.oneof(
    {
      weight: 3,
      arbitrary: fc.constantFrom<unknown>(
        '</pre><script>alert(1)</script>',
        '" onload="x',
        "'><img src=x onerror=1>",
        '\u202e\u0000\ud800',
        '<!--',
        ']]>',
        '&lt;',
      ),
    },
    { weight: 2, arbitrary: anyText as fc.Arbitrary<unknown> },
    { weight: 2, arbitrary: fc.jsonValue({ maxDepth: 3, stringUnit: 'binary' }) as fc.Arbitrary<unknown> },
  );
  const keys = fc.oneof(
    fc.constantFrom(
      ...'id prompt input steps decision failure request messages response error body url custom_id agents rung row ordering conversation_history business_decision initial_prompt _fw key outcome endpoint item time answer usage'.split(
        ' ',
      ),
    ),
    anyText,
  );
  const deep = (levels: number): fc.Arbitrary<unknown> =>
    levels === 0
      ? odd
      : fc.oneof(
          odd,
          fc.array(deep(levels - 1), { maxLength: 3 }),
          fc.dictionary(
            fc.oneof(
              keys,
              fc.constantFrom(
                'agent',
                'output',
                'raw',
                'repairs',
                'rule',
                'offset',
                'cut',
                'put',
                'at',
                'from',
                'to',
                'calls',
                'rejected',
                'code',
                'message',
                'stage',
                'role',
                'content',
                'choices',
                'type',
                'image_url',
                'url',
                'status_code',
              ),
            ),
            deep(levels - 1),
            { maxKeys: 5 },
          ),
        );
  const line = fc
    .oneof(
      fc.dictionary(keys, deep(3), { maxKeys: 8 }),
      fc.record(
        {
          id: odd,
          prompt: odd,
          input: fc.dictionary(anyText, odd, { maxKeys: 3 }),
          steps: fc.array(deep(2), { maxLength: 3 }),
          decision: deep(2),
          failure: deep(1),
        },
        { requiredKeys: ['id', 'steps'] },
      ),
      fc.record({
        id: odd,
        steps: fc.array(
          fc.record(
            {
              agent: odd,
              output: deep(2),
              raw: odd,
              rung: odd,
              repairs: fc.array(deep(1)),
              rejected: fc.array(fc.record({ raw: anyText, code: anyText, message: anyText })),
              calls: fc.array(odd),
              attempts: fc.nat(3),
            },
            { requiredKeys: ['agent'] },
          ),
          { maxLength: 2 },
        ),
      }),
      fc.record({
        conversation_history: fc.array(deep(2), { maxLength: 3 }),
        business_decision: deep(2),
        initial_prompt: odd,
      }),
      fc.record({
        custom_id: odd,
        response: fc.record({
          status_code: fc.nat(),
          body: fc.record({
            choices: fc.array(fc.record({ message: deep(2), finish_reason: odd })),
            usage: deep(1),
          }),
        }),
      }),
      fc.record({
        id: odd,
        messages: fc.array(fc.record({ role: odd, content: deep(2), tool_calls: odd }), { maxLength: 3 }),
      }),
    )
    .map(value => JSON.parse(JSON.stringify(value)) as JsonObject);

  test('gives a page whose markup is ours alone', () => {
    holds(line, value => {
      expectOwn(pageOf(value));
      expectOwn(pageOf(value, { isRow: true }));
    });
  });

  test('that is huge gives a page of a megabyte at most, which says what it leaves out', () => {
    const long = '<&"\u202e\u0000'.repeat(400_000);
    const step = {
      agent: 'x'.repeat(500),
      output: { a: long },
      raw: long,
      rung: 'clean',
      saw: 'clean',
      repairs: [],
      calls: ['k'],
      attempts: 1,
    };
    const many = Object.fromEntries(
      Array.from({ length: 100_000 }, (_, at) => [`k${at}<`, at % 2 ? long.slice(0, 50) : { a: [at] }]),
    );
    const edits = Array.from({ length: 100_000 }, (_, at) => ({
      rule: `r${at}`.padEnd(50, '<'),
      offset: 2 * at,
      cut: '<',
      put: '&',
    }));
    const lines: JsonObject[] = [
      { id: long, prompt: long, input: { long }, steps: [step, step, step] },
      {
        id: 'a',
        prompt: 'p',
        input: many,
        steps: [{ ...step, output: many, raw: JSON.stringify(many) }],
        decision: { ...step, output: many },
      },
      { id: 'a', steps: [{ ...step, raw: '<x'.repeat(100_000), repairs: edits }] },
      {
        id: 'a',
        steps: [
          {
            ...step,
            repairs: Array.from({ length: 100_000 }, () => ({ rule: 'percent', at: '/a', from: 1, to: 2 })),
          },
        ],
      },
      { id: 'a', steps: Array.from({ length: 20_000 }, () => ({ ...step, raw: 'x', output: 'x' })) },
      {
        id: 'a',
        steps: [
          {
            ...step,
            rejected: Array.from({ length: 20_000 }, () => ({
              raw: '<'.repeat(500),
              code: 'c',
              message: 'm',
            })),
          },
        ],
      },
      {
        id: 'a',
        messages: Array.from({ length: 50_000 }, () => ({
          role: 'user',
          content: [{ type: 'text', text: '<' }],
        })),
      },
      many,
      {
        custom_id: 'c',
        response: {
          status_code: 200,
          body: { choices: Array.from({ length: 50_000 }, () => ({ message: { content: '<b>' } })) },
        },
      },
      {
        conversation_history: Array.from({ length: 1 }, () => ({
          agent: '<',
          input: long.slice(0, 500),
          output: many,
        })),
        business_decision: many,
      },
      { id: 'a', failure: { stage: long, code: long, message: long, text: long } },
      {
        custom_id: 'c',
        method: 'POST',
        url: long,
        body: { messages: [{ role: long, content: long }], x: long },
      },
    ];
    for (const [at, value] of lines.entries()) {
      const page = pageOf(value);
      expect(Buffer.byteLength(page), `line ${at}`).toBeLessThan(1_000_000);
      expectOwn(page);
      expect(page.includes('/item/0/raw'), `line ${at}`).toBe(true);
    }
  });

  test('that nests deeply is shown as it is written', () => {
    for (const levels of [100, 511, 600, 5_000]) {
      const text = `{"id":"a","steps":[{"agent":"x","output":${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}}]}`;
      const page = pageOf(JSON.parse(text) as JsonObject, {}, text);
      expectOwn(page);
      expect(page.includes('is shown as it is written')).toBe(levels > 510);
    }
  });
});

describe('marks', () => {
  const bare = () => new Writer({ hidden: null, links: LINKS });
  /** a text, with changes at places of it */
  const changed = fc
    .tuple(anyText, fc.array(fc.tuple(fc.nat(40), fc.nat(6), anyText), { maxLength: 5 }))
    .map(([said, places]) => {
      const edits: Edit[] = [];
      let from = 0;
      for (const [skip, length, put] of places) {
        const offset = Math.min(said.length, from + skip);
        const cut = said.slice(offset, offset + length);
        if (cut === '' && put === '') continue;
        edits.push({ rule: 'a rule', offset, cut, put });
        from = offset + cut.length;
      }
      return { said, edits };
    });
  // pairs of surrogates may be cut apart, and are then shown apart
  const same = (text: string): string =>
    visibleLines(text)
      .join('\n')
      .replace(/<U\+[0-9A-F]{4}>/g, '?')
      .replace(/<U\+[0-9A-F]{5,}>|[\u{10000}-\u{10ffff}]/gu, '??');

  test('undone give the text of the model, and done the text that was read', () => {
    holds(changed, ({ said, edits }) => {
      expect(areOf(said, edits)).toBe(true);
      const { text } = markedText(said, edits, bare());
      const plain = text
        .replaceAll(/<span class="unseen">[^<]*<\/span>/g, '')
        .replaceAll(/<p class="dim">\(an empty text\)<\/p>/g, '');
      const without = (name: string): string =>
        unescaped(plain.replaceAll(new RegExp(`<${name}[^>]*>[^<]*</${name}>`, 'g'), '').replaceAll(TAG, ''));
      expect(same(without('ins'))).toBe(same(said));
      expect(same(without('del'))).toBe(same(applyEdits(said, edits)));
    });
  });

  test('that are of another text are not made', () => {
    const edits = [{ rule: 'r', offset: 3, cut: 'x', put: '' }];
    for (const said of ['abc', '', 'abcd'])
      expect(markedText(said, edits, bare()).text).toContain('not of this text');
    expect(
      areOf('aa', [
        { rule: 'r', offset: 1, cut: 'a', put: '' },
        { rule: 'r', offset: 0, cut: 'a', put: '' },
      ]),
    ).toBe(false);
    expect(areOf('aa', [{ rule: 'r', offset: -1, cut: '', put: 'x' }])).toBe(false);
  });
});

describe('the request as curl', () => {
  test('sends the same JSON, whatever is in it, and never runs any of it', async () => {
    const texts = [
      ...fc.sample(anyText, { numRuns: 30, seed: 5 }),
      "'; touch x; echo '",
      '$(touch x)',
      '`touch x`',
      '\nEND_OF_BODY\ntouch x\n',
      '\u2028\u0085\u202e',
    ];
    const at = folder();
    for (const [index, content] of texts.entries()) {
      const body = JSON.stringify({ messages: [{ role: 'user', content }] }, null, index % 2);
      const command = curlCommand({
        endpoint: "http://h'x/v1",
        path: '/chat/completions',
        isRaw: false,
        body,
      });
      expect(command).not.toMatch(/(?![\n\t])\p{Cc}/u);
      // a curl that prints what it is given
      const { stdout, code } = await shell(`curl() { printf '%s\\0' "$@"; cat; }\nAPI_KEY=k\n${command}`, {
        cwd: at,
      });
      const [, , , , url] = ['', '', '', '', stdout.split('\0')[1]];
      expect([code, url]).toEqual([0, "http://h'x/v1/chat/completions"]);
      expect(JSON.parse(stdout.split('\0').at(-1) as string)).toEqual(JSON.parse(body));
    }
    expect(readdirSync(at)).toEqual([]);
  });
});
