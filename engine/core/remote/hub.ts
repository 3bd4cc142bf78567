/** The Hugging Face hub: where it is, who asks, and which files a data set has. */

import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { dataError, type Fatal, usageError } from '../item/failure.ts';
import { visible } from '../json/visible.ts';
import { type HubAddress, inQuery, inUrl } from './address.ts';
import { type Asking, expectPassed, following, patiently, textOf } from './exchange.ts';

export interface Hub {
  /** without a slash at its end */
  endpoint: string;
  token: string | null;
}

/** By HF_ENDPOINT and HF_TOKEN, else the file that `hf auth login` writes. */
export function hubOf(env: NodeJS.ProcessEnv): Hub {
  const endpoint = (env.HF_ENDPOINT || 'https://huggingface.co').replace(/\/+$/, '');
  if (!/^https?:\/\//i.test(endpoint) || !URL.canParse(endpoint))
    throw usageError(`HF_ENDPOINT: expected http(s)://HOST, found ${visible(endpoint.slice(0, 100))}`);
  return { endpoint, token: tokenOf(env) };
}

function tokenOf(env: NodeJS.ProcessEnv): string | null {
  const cache = env.XDG_CACHE_HOME || join(env.HOME ?? homedir(), '.cache');
  const path = env.HF_TOKEN_PATH || join(env.HF_HOME || join(cache, 'huggingface'), 'token');
  let token = env.HF_TOKEN || env.HUGGING_FACE_HUB_TOKEN;
  try {
    token ||= readFileSync(path, 'utf8');
  } catch {
    // nobody logged in
  }
  token = token?.trim();
  if (!token) return null;
  if (!/^[\x21-\x7e]{1,500}$/.test(token))
    throw usageError('HF_TOKEN: expected a token such as hf_…, found other characters in it');
  return token;
}

/** The token is for the hub alone: it leads on to other hosts. */
export function headersAt({ endpoint, token }: Hub, { origin }: URL): Record<string, string> {
  return token !== null && origin === new URL(endpoint).origin ? { authorization: `Bearer ${token}` } : {};
}

/** What a refusal means to who runs fw. The hub says 401 of what is not there, too. */
export function meaningOfHub(
  { statusCode = 0, headers }: IncomingMessage,
  { what, dataset, hub }: { what: string; dataset: string; hub: Hub },
): Fatal {
  const code = visible(String(headers['x-error-code'] ?? '').slice(0, 60));
  const found = `${what}, found status ${statusCode}${code && ` (${code})`}`;
  if (code === 'GatedRepo')
    return dataError(
      `${found}: accept the conditions at ${hub.endpoint}/datasets/${dataset}, and set HF_TOKEN`,
    );
  if (code === 'RevisionNotFound') return dataError(`${found}: there is no such branch, tag or commit`);
  if (code === 'EntryNotFound') return dataError(`${found}: the data set has no such file; look at the path`);
  if (statusCode === 401 || statusCode === 403 || code === 'RepoNotFound')
    return dataError(
      `${found}: there is no such data set, or it is private: ${hub.token === null ? 'set HF_TOKEN to a token' : 'the token that was found is for somebody'} that may read it`,
    );
  return dataError(statusCode === 404 ? `${found}: nothing is there; look at the path` : found);
}

const MOST_LIST = 16 * 1024 * 1024;
const MOST_FILES = 100_000;

/** The paths of the files below a folder ('' for all), in order. Exit 65 where they may not be listed. */
export async function hubFiles(
  { dataset, revision }: HubAddress,
  folder: string,
  asking: Asking,
): Promise<string[]> {
  const hub = hubOf(asking.env);
  const name = `hf://datasets/${dataset}/${visible(folder)}`;
  const what = `${name}: expected a list of files`;
  const tree = `${hub.endpoint}/api/datasets/${dataset}/tree/${inQuery(revision)}`;
  let next: URL | null = new URL(`${tree}${folder && `/${inUrl(folder)}`}?recursive=true`);
  const files: string[] = [];
  for (let pages = 0; next !== null; pages++) {
    const page: URL = next;
    const { list, link } = await patiently(what, asking, async () => {
      const answer = await following(page, url => headersAt(hub, url), { asking, name });
      if (answer.statusCode !== 200) {
        expectPassed(answer);
        answer.destroy();
        throw meaningOfHub(answer, { what, dataset, hub });
      }
      return { list: listIn(await textOf(answer, asking, MOST_LIST), what), link: answer.headers.link };
    });
    files.push(...list);
    if (files.length > MOST_FILES || pages > MOST_FILES / 100)
      throw dataError(`${what}, found more than ${MOST_FILES}; name a longer beginning before the *`);
    const [, after] = /<([^<>]{1,4000})>\s*;\s*rel="next"/.exec(String(link ?? '')) ?? [];
    // a page may have folders alone
    next = after !== undefined && URL.canParse(after, page.href) ? new URL(after, page) : null;
  }
  return files.sort();
}

function listIn(text: string, what: string): string[] {
  try {
    const entries = JSON.parse(text) as { type?: unknown; path?: unknown }[];
    return entries.flatMap(({ type, path }) => (type === 'file' && typeof path === 'string' ? [path] : []));
  } catch {
    throw dataError(`${what}, found what is no list of the hub; look at HF_ENDPOINT`);
  }
}
