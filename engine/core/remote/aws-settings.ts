/**
 * How S3 is reached: by the variables and the files that Amazon's own tools read. Keys that a tool has to fetch first (SSO,
 * roles, processes) are not fetched here; it is said how to hand them over.
 */
import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { usageError } from '../item/failure.ts';
import { shellWord } from '../item/wording.ts';
import { visible } from '../json/visible.ts';

export interface AwsSettings {
  /** null: requests are not signed, as public buckets need it */
  keys: { accessKeyId: string; secretAccessKey: string; sessionToken?: string } | null;
  /** where they come from, for messages */
  from: string;
  region: string;
  /** null: Amazon's own */
  endpoint: URL | null;
}

type Section = Record<string, string>;

/** What stands in a profile in place of keys. */
const FETCHED = ['sso_session', 'sso_start_url', 'role_arn', 'credential_process', 'web_identity_token_file'];

/** Exit 64 where they are incomplete, or say what cannot be used here. */
export function awsSettings(env: NodeJS.ProcessEnv): AwsSettings {
  const folder = join(env.HOME ?? homedir(), '.aws');
  const paths = {
    credentials: env.AWS_SHARED_CREDENTIALS_FILE || join(folder, 'credentials'),
    config: env.AWS_CONFIG_FILE || join(folder, 'config'),
  };
  const name = env.AWS_PROFILE || 'default';
  const found = { credentials: sectionsOf(paths.credentials), config: sectionsOf(paths.config) };
  const own = found.credentials.get(name);
  const config = found.config.get(name === 'default' ? name : `profile ${name}`) ?? found.config.get(name);
  if (env.AWS_PROFILE && own === undefined && config === undefined && !env.AWS_ACCESS_KEY_ID)
    throw usageError(
      `AWS_PROFILE: expected a profile of ${paths.credentials} or ${paths.config}, found none called ${visible(name)}`,
    );
  const profile: Section = { ...config, ...own };
  return {
    ...keysOf(env, profile, name),
    region: env.AWS_REGION || env.AWS_DEFAULT_REGION || profile.region || 'us-east-1',
    endpoint: endpointOf(env.AWS_ENDPOINT_URL_S3 || env.AWS_ENDPOINT_URL || profile.endpoint_url),
  };
}

function keysOf(env: NodeJS.ProcessEnv, profile: Section, name: string): Pick<AwsSettings, 'keys' | 'from'> {
  const { AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: secret, AWS_SESSION_TOKEN: token } = env;
  if (id && secret) return { keys: keysIn(id, secret, token), from: 'AWS_ACCESS_KEY_ID' };
  if (id || secret)
    throw usageError(
      `expected AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, found ${id ? 'the first' : 'the second'} alone`,
    );
  const { aws_access_key_id: ownId, aws_secret_access_key: ownSecret, aws_session_token: ownToken } = profile;
  const from = `the profile ${visible(name)}`;
  if (ownId && ownSecret) return { keys: keysIn(ownId, ownSecret, ownToken), from };
  const fetched = FETCHED.find(key => profile[key] !== undefined);
  if (fetched !== undefined)
    throw usageError(
      `expected keys in ${from}, found ${fetched}, by which they are fetched; to hand them over: eval "$(aws configure export-credentials --profile ${shellWord(name)} --format env)"`,
    );
  return { keys: null, from: 'nobody' };
}

function keysIn(accessKeyId: string, secretAccessKey: string, sessionToken: string | undefined) {
  return { accessKeyId, secretAccessKey, ...(sessionToken && { sessionToken }) };
}

function endpointOf(text: string | undefined): URL | null {
  if (!text) return null;
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text))
    throw usageError(`AWS_ENDPOINT_URL: expected http(s)://HOST, found ${visible(text.slice(0, 100))}`);
  return new URL(text);
}

/** The sections of a file of Amazon's tools; none where it is not there. What is indented belongs to a value, and is not read. */
function sectionsOf(path: string): Map<string, Section> {
  const sections = new Map<string, Section>();
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch {
    return sections;
  }
  let section: Section = {};
  for (const line of text.split('\n')) {
    const [, title] = /^\[([^\]]{1,200})\]/.exec(line) ?? [];
    if (title !== undefined) {
      const known = title.trim().replace(/^profile\s+/, 'profile ');
      section = sections.get(known) ?? Object.create(null);
      sections.set(known, section);
      continue;
    }
    const at = line.indexOf('=');
    if (at < 1 || /^[\s#;]/.test(line)) continue;
    section[line.slice(0, at).trim().toLowerCase()] = line.slice(at + 1).trim();
  }
  return sections;
}
