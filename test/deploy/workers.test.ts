/** A server, Redis and workers by the command lines of deploy/kubernetes, docker and systemd, with a simulated server for each vLLM. */
import { copyFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { freePort } from '../free-port.ts';
import { folder, ROOT, shell } from '../fw.ts';
import { simulated } from '../server/serving.ts';
import { startRedis } from '../shards/redis.ts';
import { begun, expectAnswered, fwOf, newKey, serving, until, wholeWithRedis } from './processes.ts';

const DEPLOY = join(ROOT, 'deploy');
const textOf = (name: string): string => readFileSync(join(DEPLOY, name), 'utf8');
const LINES = 450;

interface Container {
  name: string;
  command?: string[];
  args?: string[];
  env?: { name: string; value?: string; valueFrom?: { secretKeyRef: { name: string; key: string } } }[];
  envFrom?: { secretRef: { name: string } }[];
  ports?: { containerPort: number; name?: string }[];
  volumeMounts?: { name: string }[];
  restartPolicy?: string;
  startupProbe?: object;
}

/** Both files of the cluster. */
const manifests = ['serve', 'workers'].flatMap(name =>
  parseAllDocuments(textOf(`kubernetes/${name}.yaml`)).map(document => document.toJS()),
);
const of = (kind: string, name: string) => {
  const found = manifests.find(one => one.kind === kind && one.metadata.name === name);
  expect(found, `${kind} ${name}`).toBeDefined();
  return found;
};
const podOf = (name: string) => of('Deployment', name).spec.template.spec;
const containersOf = (name: string): Container[] => [
  ...(podOf(name).initContainers ?? []),
  ...podOf(name).containers,
];
const containerOf = (name: string, container: string): Container =>
  containersOf(name).find(one => one.name === container) as Container;

/** As the kubelet sets them: Secrets filled in, and $(NAME) of what comes before. */
function variablesOf(container: Container): Record<string, string> {
  const env: Record<string, string> = {};
  for (const { secretRef } of container.envFrom ?? [])
    Object.assign(env, of('Secret', secretRef.name).stringData);
  for (const { name, value, valueFrom } of container.env ?? []) {
    const { name: secret = '', key = '' } = valueFrom?.secretKeyRef ?? {};
    env[name] = value ?? of('Secret', secret).stringData[key];
    env[name] = (env[name] as string).replaceAll(/\$\((\w+)\)/g, (_, other) => env[other] as string);
  }
  return env;
}

describe('deploy/kubernetes/serve.yaml and workers.yaml', () => {
  test('what they name is there', () => {
    for (const { kind, metadata, spec } of manifests) {
      if (kind === 'Service') {
        const { template } = of('Deployment', spec.selector.app).spec;
        expect(template.metadata.labels).toMatchObject(spec.selector);
        const ports = containersOf(spec.selector.app).flatMap(({ ports: own = [] }) => own);
        for (const { port } of spec.ports) expect(ports.map(own => own.containerPort)).toContain(port);
      }
      if (kind !== 'Deployment') continue;
      const { name } = metadata;
      expect(spec.template.metadata.labels).toEqual(spec.selector.matchLabels);
      const mounted = containersOf(name).flatMap(one => one.volumeMounts ?? []);
      const volumes = podOf(name).volumes as {
        name: string;
        persistentVolumeClaim?: { claimName: string };
      }[];
      expect(new Set(volumes.map(volume => volume.name))).toEqual(new Set(mounted.map(each => each.name)));
      for (const { persistentVolumeClaim: claim } of volumes)
        if (claim) of('PersistentVolumeClaim', claim.claimName);
    }
  });

  test('a worker comes after its vLLM, goes before it, and has the time to hand back', () => {
    const [vllm] = podOf('fw-worker').initContainers as Container[];
    expect(vllm).toMatchObject({ name: 'vllm', restartPolicy: 'Always', startupProbe: expect.anything() });
    const { args = [] } = containerOf('fw-worker', 'fw');
    const port = vllm?.args?.[vllm.args.indexOf('--port') + 1];
    expect(args[args.indexOf('--endpoint') + 1]).toBe(`http://127.0.0.1:${port}/v1`);
    const grace = Number.parseInt(args[args.indexOf('--grace') + 1] as string, 10);
    expect(podOf('fw-worker').terminationGracePeriodSeconds).toBeGreaterThanOrEqual(grace + 30);
    // KEDA's number of pods is not set back by the next apply
    expect(of('Deployment', 'fw-worker').spec.replicas).toBeUndefined();
  });

  wholeWithRedis('its pods answer a batch, and a pod that is stopped hands back', async () => {
    const data = join(folder(), 'data');
    const redisPort = await freePort();
    const placed = (text: string): string =>
      text.replace('redis-server ', `redis-server --port ${redisPort} `);
    const placedUrl = ({ FW_REDIS = '', ...env }: Record<string, string>) => ({
      ...env,
      FW_REDIS: FW_REDIS.replace('fw-redis:6379', `127.0.0.1:${redisPort}`),
    });
    const redis = containerOf('fw-redis', 'redis');
    const [program = '', ...rest] = redis.command as string[];
    await begun(program, rest.map(placed), { env: variablesOf(redis) }).says('Ready to accept connections');

    // it waits for the first key, which the header of the file says how to make
    const first = containerOf('fw-serve', 'first-key').command as [string, string, string];
    const waiting = begun(first[0], [first[1], first[2].replace('/data', data)]);
    const said = [
      ...textOf('kubernetes/serve.yaml').matchAll(/-- fw keys add (.*?) --data \/data(.*?)(?:#.*)?$/gm),
    ];
    const keys: string[] = [];
    for (const [, name = '', more = ''] of said)
      keys.push(await newKey(data, name, ...more.trim().split(' ').filter(Boolean)));
    const [alice = '', worker = '', prometheus = ''] = keys;
    expect(await waiting.ended).toBe(0);

    const serve = containerOf('fw-serve', 'fw');
    const url = await serving(serve.args as string[], data, placedUrl(variablesOf(serve)));
    expect((await fetch(`${url}/ready`)).status).toBe(200);

    const own = containerOf('fw-worker', 'fw');
    const { url: vllm } = await simulated();
    const stands: Record<string, string> = {
      'http://fw-serve:8080': url,
      'http://127.0.0.1:8000/v1': vllm,
      '/work': join(folder(), 'work'),
    };
    const env = { ...placedUrl(variablesOf(own)), FW_WORKER_KEY: worker };
    const page = async (): Promise<string> =>
      (await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${prometheus}` } })).text();
    const answered = expectAnswered(url, alice, LINES);
    // what KEDA sees before there ever was a worker: no seconds, not even a part of them, but lines
    await until(async () => (await page()).includes(`fw_shard_lines{state="queued"} ${LINES}\n`));
    expect(await page()).not.toMatch(/^fw_shard_work_seconds/m);
    const pod = fwOf(
      (own.args as string[]).map(word => stands[word] ?? word),
      { env },
    );
    await answered;
    expect(await page()).toMatch(/^fw_workers 1$/m);
    expect(await page()).toMatch(/^fw_shard_work_seconds\{state="queued"\} 0$/m);
    pod.child.kill('SIGTERM');
    expect(await pod.ended, pod.said()).toBe(0);
  });

  test('the KEDA trigger has the fields that its documentation names, for metrics that there are', () => {
    const { spec } = of('ScaledObject', 'fw-worker');
    expect(spec.scaleTargetRef.name).toBe('fw-worker');
    expect(spec.minReplicaCount).toBe(0);
    expect(spec.fallback.replicas).toBeLessThanOrEqual(spec.maxReplicaCount);
    const [{ type, metadata }] = spec.triggers;
    expect(type).toBe('prometheus');
    expect(Object.keys(metadata).sort()).toEqual([
      'activationThreshold',
      'ignoreNullValues',
      'query',
      'serverAddress',
      'threshold',
    ]);
    expect(metadata.ignoreNullValues).toBe('false');
  });
});

describe('deploy/docker/workers.yaml', () => {
  const text = textOf('docker/workers.yaml');
  const { services, volumes } = parse(text, { merge: true });

  test('hosts are its services, volumes are there, and each worker has a vLLM and a GPU of its own', () => {
    const hosts = [...text.matchAll(/(?:redis|https?):\/\/([\w-]+):/g)].map(([, host = '']) => host);
    const mounted = Object.values<{ volumes?: string[] }>(services).flatMap(one => one.volumes ?? []);
    expect(hosts.filter(host => !services[host])).toEqual([]);
    expect(new Set(mounted.map(volume => volume.split(':')[0]))).toEqual(new Set(Object.keys(volumes)));
    for (const n of ['1', '2']) {
      expect(services[`worker-${n}`].command).toContain(`http://vllm-${n}:8000/v1`);
      const [device] = services[`vllm-${n}`].deploy.resources.reservations.devices;
      expect(device.device_ids).toEqual([String(Number(n) - 1)]);
      expect(Number.parseInt(services[`worker-${n}`].stop_grace_period, 10)).toBeGreaterThan(60);
    }
  });

  wholeWithRedis('its commands: a server, and two workers that answer a batch', async () => {
    const data = join(folder(), 'data');
    const [program, ...args] = services.redis.command as [string, ...string[]];
    const port = await freePort();
    await begun(program, [...args, '--port', `${port}`]).says('Ready to accept connections');
    const FW_REDIS = services.fw.environment.FW_REDIS.replace('redis:6379', `127.0.0.1:${port}`);
    const alice = await newKey(data, 'alice');
    const url = await serving(services.fw.command, data, { FW_REDIS });
    const [, check, ...rest] = services.fw.healthcheck.test as [string, string, ...string[]];
    const healthy = begun(
      check,
      rest.map(word => word.replace('http://127.0.0.1:8080', url)),
    );
    expect(await healthy.ended).toBe(0);
    const FW_WORKER_KEY = await newKey(data, 'gpus', '--scope', 'worker');
    const vllms = await Promise.all([simulated({ latency: '20ms' }), simulated({ latency: '20ms' })]);
    const workers = vllms.map(({ url: endpoint }, at) => {
      const { command, environment } = services[`worker-${at + 1}`];
      expect(environment).toMatchObject({ FW_REDIS: 'redis://redis:6379', FW_SERVER: 'http://fw:8080' });
      const words = (command as string)
        .split(' ')
        .map(word =>
          word.startsWith('http:') ? endpoint : word === '/work' ? join(folder(), 'work') : word,
        );
      return fwOf(words, { env: { FW_REDIS, FW_SERVER: url, FW_WORKER_KEY } });
    });
    await expectAnswered(url, alice, 2 * LINES);
    for (const { simulator } of vllms) expect(simulator.counts().requests).toBeGreaterThan(0);
    for (const worker of workers) {
      worker.child.kill('SIGTERM');
      expect(await worker.ended, worker.said()).toBe(0);
    }
  });
});

describe('deploy/systemd/fw-work@.service', () => {
  const unit = textOf('systemd/fw-work@.service');

  wholeWithRedis('its command works', async () => {
    const redis = await startRedis();
    const data = join(folder(), 'data');
    const alice = await newKey(data, 'alice');
    const FW_WORKER_KEY = await newKey(data, 'gpus', '--scope', 'worker');
    const url = await serving(['serve', '--data', '', '--listen', ''], data, { FW_REDIS: redis.url });
    const { url: vllm } = await simulated();
    const [, line = ''] = /^ExecStart=\S+ (.*)$/m.exec(unit) ?? [];
    const port = new URL(vllm).port;
    const words = line.replaceAll('%i', port).replace('/var/lib/fw-work', folder()).split(' ');
    const env = { FW_REDIS: redis.url, FW_SERVER: url, FW_WORKER_KEY };
    // what its header says to write into the file of variables
    for (const name of Object.keys(env)) expect(unit).toMatch(new RegExp(`^# +${name}=`, 'm'));
    const worker = fwOf(words, { env });
    await expectAnswered(url, alice, 20);
    worker.child.kill('SIGTERM');
    expect(await worker.ended, worker.said()).toBe(0);
  });

  test.runIf(existsSync('/usr/bin/systemd-analyze'))('systemd understands it', async () => {
    const at = folder();
    copyFileSync(join(DEPLOY, 'systemd', 'fw-work@.service'), join(at, 'fw-work@8005.service'));
    const ran = await shell(
      `sed -i s,/usr/local/bin/fw,$(command -v fw), *.service && systemd-analyze verify ./*.service`,
      { cwd: at },
    );
    expect(ran.code, ran.stderr).toBe(0);
    expect(ran.stderr).not.toContain('fw-work@8005.service:');
  });
});
