/** Each kind of fault: how shares are read, what it does to an answer or a connection, and that a retry can succeed. */
import { afterEach, describe, expect, test } from 'vitest';
import { ANSWER_FAULTS, DEFAULT_FAULTS, faultsFrom } from '../../products/simulator/faults.ts';
import { type Simulator, type SimulatorOptions, startSimulator } from '../../products/simulator/simulator.ts';
import { agentSchema, bodyOf, completion, contentOf, post, synthesisSchema } from './loan.ts';

const running: Simulator[] = [];
async function start(options: SimulatorOptions): Promise<Simulator> {
  const simulator = await startSimulator({ name: 'a', ...options });
  running.push(simulator);
  return simulator;
}
afterEach(async () => {
  await Promise.all(running.splice(0).map(simulator => simulator.close()));
});

const turns = (count: number) => Array.from({ length: count }, (_, turn) => turn);

describe('shares', () => {
  test('none, default, kinds and all', () => {
    expect(Object.values(faultsFrom('none')).every(share => share === 0)).toBe(true);
    expect(faultsFrom('default')).toBe(DEFAULT_FAULTS);
    expect(faultsFrom('429=0.1, null=.02')).toMatchObject({ '429': 0.1, null: 0.02, hang: 0 });
    expect(faultsFrom('all=0.2,hang=0')).toMatchObject({ '500': 0.2, zero: 0.2, hang: 0 });
  });

  test.each([
    '',
    'some',
    'null',
    'null=2',
    'null=-1',
    'null=20%',
    'null=0.1=2',
    'timeout=0.1',
    'constructor=1',
    'null=0.1,',
  ])('"%s" is refused', text => expect(() => faultsFrom(text)).toThrow(RangeError));

  test('the default rates are those that were seen', () => {
    const { '429': busy, '500': broken, drop, hang, zero } = DEFAULT_FAULTS;
    expect(busy + broken + drop + hang).toBeCloseTo(0.005);
    expect(zero).toBe(0.0003);
  });
});

describe('in answers', () => {
  test('chatty puts prose around the object', async () => {
    const { url } = await start({ faults: 'chatty=1' });
    const text = await contentOf(url, bodyOf());
    expect(text).toMatch(/^[A-Z][^{]+\n\n\{"[^\n]+\}\n\n[A-Z][^{}]+$/);
    expect(JSON.parse(text.slice(text.indexOf('{'), text.lastIndexOf('}') + 1)).loan_type).toBe(
      'personal_loan',
    );
  });

  test('fence is Markdown', async () => {
    const { url } = await start({ faults: 'fence=1' });
    expect(await contentOf(url, bodyOf())).toMatch(/^```json\n\{[^\n]+\}\n```$/);
  });

  test('escape is one illegal backslash inside a string', async () => {
    const { url } = await start({ faults: 'escape=1' });
    for (const turn of turns(20)) {
      const text = await contentOf(url, bodyOf({ turn }));
      expect(() => JSON.parse(text)).toThrow(SyntaxError);
      const mended = text.replace(/\\(?:u12|[O$ %])/, '');
      expect(JSON.parse(mended).loan_type).toBe('personal_loan');
    }
  });

  test('null is one value that the schema forbids', async () => {
    const { url } = await start({ faults: 'null=1' });
    const places = new Set<string>();
    for (const turn of turns(40)) {
      const text = await contentOf(url, bodyOf({ turn }));
      expect(text.match(/:null/g)).toHaveLength(1);
      places.add(/"(\w+)":null/.exec(text)![1]!);
    }
    expect(places.size).toBeGreaterThan(5);
  });

  test('null spares what may be null', async () => {
    const { url } = await start({ faults: 'null=1' });
    const schema = {
      type: 'object',
      properties: { maybe: { type: ['string', 'null'] }, surely: { type: 'integer' } },
      required: ['maybe', 'surely'],
    };
    for (const turn of turns(10))
      expect(JSON.parse(await contentOf(url, bodyOf({ schema, turn }))).surely).toBeNull();
  });

  test('zero is a decision without confidence, and only a decision', async () => {
    const { url } = await start({ faults: 'zero=1' });
    const decision = JSON.parse(await contentOf(url, bodyOf({ schema: synthesisSchema })));
    expect(decision).toMatchObject({ confidence_probability: 0, confidence_level: 'low' });
    const step = JSON.parse(await contentOf(url, bodyOf({ schema: agentSchema })));
    expect(step.confidence_probability).toBeGreaterThan(0);
  });

  test('truncated ends early and says so', async () => {
    const { url } = await start({ faults: 'truncated=1' });
    const { choices } = await completion(url, bodyOf());
    expect(choices[0]!.finish_reason).toBe('length');
    expect(() => JSON.parse(choices[0]!.message.content)).toThrow(SyntaxError);
  });

  test('several meet in one answer', async () => {
    const { url, counts } = await start({ faults: ANSWER_FAULTS.map(kind => `${kind}=1`).join(',') });
    const { choices } = await completion(url, bodyOf({ schema: synthesisSchema }));
    expect(choices[0]!.message.content).toMatch(/^[A-Z][^`]+```json\n\{/);
    for (const kind of ANSWER_FAULTS) expect(counts().faults[kind]).toBe(1);
  });

  test('the same request has the same fault; another question draws anew, at the share asked for', async () => {
    const { url } = await start({ faults: 'fence=0.3' });
    const ask = async (turn: number) => (await contentOf(url, bodyOf({ turn }))).startsWith('```');
    const first = await Promise.all(turns(300).map(ask));
    expect(await Promise.all(turns(300).map(ask))).toEqual(first);
    const share = first.filter(Boolean).length / 300;
    expect(share).toBeGreaterThan(0.2);
    expect(share).toBeLessThan(0.4);
  });
});

describe('in transport', () => {
  test('429 comes with and without Retry-After', async () => {
    const { url } = await start({ faults: '429=1' });
    const waits = new Set<string | null>();
    for (const turn of turns(20)) {
      const response = await post(url, bodyOf({ turn }));
      expect(response.status).toBe(429);
      expect(await response.json()).toMatchObject({ error: { code: 429 } });
      waits.add(response.headers.get('retry-after'));
    }
    expect(waits).toEqual(new Set(['1', null]));
  });

  test('500 has the body of vLLM', async () => {
    const { url } = await start({ faults: '500=1' });
    for (const stream of [false, true]) {
      const response = await post(url, bodyOf({ more: { stream } }));
      expect(response.status).toBe(500);
      expect(await response.json()).toMatchObject({ error: { type: 'InternalServerError', code: 500 } });
    }
  });

  test('drop ends the connection, before or within the body', async () => {
    const { url } = await start({ faults: 'drop=1' });
    const endings = new Set<string>();
    for (const turn of turns(20)) {
      const response = await post(url, bodyOf({ turn })).catch(() => undefined);
      endings.add(response ? 'within' : 'before');
      await expect(
        Promise.resolve(response?.text() ?? Promise.reject(new Error('before'))),
      ).rejects.toThrow();
    }
    expect(endings).toEqual(new Set(['before', 'within']));
    const stream = await post(url, bodyOf({ more: { stream: true } }));
    await expect(stream.text()).rejects.toThrow();
  });

  test('hang never answers, and leaves nothing behind when the client gives up or the server closes', async () => {
    const simulator = await start({ faults: 'hang=1' });
    const patience = new AbortController();
    const asked = fetch(`${simulator.url}/chat/completions`, {
      method: 'POST',
      body: bodyOf(),
      signal: patience.signal,
    });
    const seen = await new Promise<number>(arrived => {
      const look = () =>
        simulator.counts().inFlight ? arrived(simulator.counts().inFlight) : setImmediate(look);
      look();
    });
    expect(seen).toBe(1);
    patience.abort();
    await expect(asked).rejects.toThrow();
    await new Promise<void>(gone => {
      const look = () => (simulator.counts().inFlight ? setImmediate(look) : gone());
      look();
    });
    const held = post(simulator.url, bodyOf({ turn: 1 }));
    const closed = expect(held).rejects.toThrow();
    await new Promise(turn => setImmediate(turn));
    await simulator.close();
    await closed;
  });

  test('the same bytes sent again draw again, and in the end succeed', async () => {
    const { url, counts } = await start({ faults: '429=0.5,500=0.2' });
    const tries: number[] = [];
    for (const turn of turns(60)) {
      let arrivals = 1;
      while ((await post(url, bodyOf({ turn }))).status !== 200) arrivals++;
      tries.push(arrivals);
    }
    expect(Math.max(...tries)).toBeGreaterThan(2);
    expect([...counts().requestsByBody.values()]).toEqual(tries);
    expect(counts()).toMatchObject({ answers: 60, requests: tries.reduce((sum, count) => sum + count, 0) });
  });

  test('servers of one seed fail at different requests, but answer alike', async () => {
    const one = await start({ faults: '429=0.5', name: 'one' });
    const two = await start({ faults: '429=0.5', name: 'two' });
    const asked = turns(40).map(turn => bodyOf({ turn }));
    const fates = await Promise.all(
      [one, two].map(({ url }) => Promise.all(asked.map(async body => (await post(url, body)).status))),
    );
    expect(fates[0]).not.toEqual(fates[1]);
    expect(fates.flat()).toContain(200);
  });
});
