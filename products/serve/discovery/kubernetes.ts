/**
 * Servers that are pods of a cluster: those with the labels that are Ready. Its API is asked for a list every few seconds,
 * with the account of this pod: a watch would bring a change sooner and needs a second way back to the whole. A list of a
 * hundred pods is some 100 kB.
 */
import { readFileSync } from 'node:fs';
import { request as askPlain } from 'node:http';
import { request as askSecure } from 'node:https';
import { isIP } from 'node:net';
import { join } from 'node:path';
import { isObject } from '../../../engine/core/json/pointer.ts';
import type { Kubernetes, Source } from './entries.ts';

/** What a pod finds of its cluster. */
export interface World {
  /** of its account: token, ca.crt, namespace */
  folder: string;
  env: Readonly<Record<string, string | undefined>>;
}

const OWN: World = { folder: '/var/run/secrets/kubernetes.io/serviceaccount', env: process.env };
const EVERY = 5_000;
const WITHIN = 10_000;
/** bytes of a page, and pods of one */
const MOST_BYTES = 16 * 1024 * 1024;
const PAGE = 500;
/** … those that are not ready among them */
const MOST_PAGES = 10;

export function kubernetesSource(settings: Kubernetes, world: World = OWN): Source {
  return {
    every: EVERY,
    misses: 1,
    async look() {
      const urls: string[] = [];
      let next = '';
      for (let pages = 0; pages < MOST_PAGES; pages++) {
        const page = await pageOf(settings, world, next);
        for (const pod of page.items) urls.push(...urlOf(pod, settings));
        next = page.next;
        if (next === '') return urls;
      }
      throw new Error(`pages without an end: more than ${MOST_PAGES} of ${PAGE} pods`);
    },
  };
}

/** Of a pod that takes requests; none of any other, or of what is no pod. */
function urlOf(pod: unknown, { port, path = '/v1' }: Kubernetes): string[] {
  if (!isObject(pod) || !isObject(pod.status) || !isObject(pod.metadata)) return [];
  const { podIP, conditions, phase } = pod.status;
  const isReady =
    Array.isArray(conditions) &&
    conditions.some(one => isObject(one) && one.type === 'Ready' && one.status === 'True');
  if (!isReady || phase !== 'Running' || pod.metadata.deletionTimestamp !== undefined) return [];
  const family = typeof podIP === 'string' ? isIP(podIP) : 0;
  if (family === 0) return [];
  return [`http://${family === 6 ? `[${podIP}]` : podIP}:${port}${path}`];
}

async function pageOf(
  { selector, namespace, api }: Kubernetes,
  world: World,
  next: string,
): Promise<{ items: readonly unknown[]; next: string }> {
  const query = new URLSearchParams({ labelSelector: selector, limit: String(PAGE) });
  if (next !== '') query.set('continue', next);
  const base = api ?? apiOf(world);
  const space = namespace ?? own('namespace', world);
  if (space === '') throw new Error('no namespace: name one, or run in a pod');
  const url = new URL(`${base.replace(/\/{1,9}$/, '')}/api/v1/namespaces/${space}/pods?${query}`);
  const { status, body } = await get(url, world, api === undefined);
  if (status !== 200) throw new Error(`HTTP ${status}${HINTS[status] ?? ''}`);
  let list: unknown;
  try {
    list = JSON.parse(body);
  } catch {
    throw new Error('an answer that is no JSON');
  }
  if (!isObject(list) || !Array.isArray(list.items)) throw new Error('an answer that is no list of pods');
  const more = isObject(list.metadata) ? list.metadata.continue : undefined;
  return { items: list.items, next: typeof more === 'string' ? more.slice(0, 4_096) : '' };
}

const HINTS: Readonly<Record<number, string>> = {
  401: ': its account is not known',
  403: ': its account may not list pods; deploy/kubernetes/serve.yaml has the Role for it',
};

function apiOf({ env }: World): string {
  const { KUBERNETES_SERVICE_HOST: host = '', KUBERNETES_SERVICE_PORT: port = '443' } = env;
  if (host === '')
    throw new Error('no cluster: KUBERNETES_SERVICE_HOST is not set; name its api, or run in a pod');
  return `https://${isIP(host) === 6 ? `[${host}]` : host}:${port}`;
}

/** A file of the account, which is replaced while it is used; empty where there is none. */
function own(name: string, { folder }: World): string {
  try {
    return readFileSync(join(folder, name), 'utf8').trim();
  } catch {
    return '';
  }
}

/** The token goes to the cluster's own API, and to no other place. */
function get(url: URL, world: World, isOwn: boolean): Promise<{ status: number; body: string }> {
  const token = isOwn ? own('token', world) : '';
  const ca = isOwn ? own('ca.crt', world) : '';
  const ask = url.protocol === 'https:' ? askSecure : askPlain;
  return new Promise((resolve, reject) => {
    const fail = (why: string): void => {
      request.destroy();
      reject(new Error(why));
    };
    const late = setTimeout(() => fail(`no answer within ${WITHIN / 1000} s`), WITHIN).unref();
    const headers = { accept: 'application/json', ...(token && { authorization: `Bearer ${token}` }) };
    const request = ask(url, { headers, agent: false, ...(ca && { ca }) }, response => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > MOST_BYTES) fail(`an answer of more than ${MOST_BYTES / 1024 / 1024} MiB`);
        else chunks.push(chunk);
      });
      response.on('end', () => {
        clearTimeout(late);
        resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString() });
      });
      response.on('error', error => fail((error as NodeJS.ErrnoException).code ?? 'a broken answer'));
    });
    request.on('close', () => clearTimeout(late));
    request.on('error', error => fail((error as NodeJS.ErrnoException).code ?? error.message));
    request.end();
  });
}
