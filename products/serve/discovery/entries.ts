/** The entries of `discover:` in the config: checked, and named in the log. */
import { type EndpointSetting, poolSettings } from '../../../engine/asking/endpoints/settings.ts';
import type { YamlFile } from '../../../engine/core/config/yaml.ts';

export interface Kubernetes {
  selector: string;
  port: number;
  namespace?: string;
  /** of the base URL */
  path?: string;
  /** in place of the cluster's own */
  api?: string;
}

/** One of `discover:`, as schemas/serve.schema.json has it. */
export interface Discover {
  dns?: string;
  kubernetes?: Kubernetes;
  limit?: number;
  api_key_env?: string;
}

export interface Source {
  /** ms between two looks */
  every: number;
  /** looks in a row that must miss an endpoint before it is taken out */
  misses: number;
  /** The base URLs that are there now. Throws an error with the cause in words. */
  look(): Promise<readonly string[]>;
}

/** As many as a pool file may have. */
export const MOST = 1_024;

/** In words, for the operator; no two entries have the same. */
export function nameOf({ dns, kubernetes }: Discover): string {
  if (kubernetes === undefined) return `dns ${dns === undefined ? '' : new URL(dns).host}`;
  const { namespace, selector, port } = kubernetes;
  return `kubernetes ${namespace === undefined ? '' : `${namespace}/`}${selector} at port ${port}`;
}

/** Exit 65, with the place in the file, for an entry that has none of the two, or both, or a key that is not there. */
export function checkDiscover(
  all: readonly Discover[],
  { complain }: Pick<YamlFile, 'complain'>,
  env: NodeJS.ProcessEnv,
): void {
  const names = new Set<string>();
  for (const [index, one] of all.entries()) {
    const at = ['discover', index];
    if ((one.dns === undefined) === (one.kubernetes === undefined))
      throw complain(
        at,
        `discover.${index}: expected either dns or kubernetes, found ${one.dns ? 'both' : 'none'}`,
      );
    if (one.dns !== undefined && !URL.canParse(one.dns))
      throw complain(
        [...at, 'dns'],
        `discover.${index}.dns: expected a base URL such as http://NAME:PORT/v1`,
      );
    const name = nameOf(one);
    if (names.has(name))
      throw complain(at, `discover.${index}: expected different entries, found ${name} twice`);
    names.add(name);
    settingsFor(one, ['http://127.0.0.1:1/v1'], env);
  }
}

/** What is found is asked with. */
export function settingsFor(
  one: Discover,
  urls: readonly string[],
  env: NodeJS.ProcessEnv,
): EndpointSetting[] {
  const { limit, api_key_env } = one;
  const more = { ...(limit !== undefined && { limit }), ...(api_key_env !== undefined && { api_key_env }) };
  return poolSettings({ pool: { endpoints: urls.map(url => ({ url, ...more })) } }, env).endpoints;
}
