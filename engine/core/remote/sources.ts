/** Where bytes come from, one way for each kind of address: who is asked, with what, and what a refusal means. */
import type { IncomingMessage } from 'node:http';
import { dataError } from '../item/failure.ts';
import { visible } from '../json/visible.ts';
import { type Address, type HubAddress, inQuery, inUrl, type S3Address, type WebAddress } from './address.ts';
import { type Asking, expectPassed, following } from './exchange.ts';
import { headersAt, hubOf, meaningOfHub } from './hub.ts';
import { Bucket } from './s3.ts';

export interface Source {
  /** for messages: without what may be a secret */
  name: string;
  /** it looks at If-Match */
  hasConditions: boolean;
  /** A GET; resolves to the answer, whatever its status. Rejects with Passing. */
  ask(headers: Record<string, string>): Promise<IncomingMessage>;
  /** Throws what an answer means that has no bytes of the file. */
  refuse(answer: IncomingMessage): Promise<never>;
}

export function sourceOf(address: Address, asking: Asking): Source {
  if (address.kind === 's3') return fromS3(address, asking);
  return address.kind === 'hub' ? fromHub(address, asking) : fromWeb(address, asking);
}

function fromS3({ bucket: name, key }: S3Address, asking: Asking): Source {
  const bucket = new Bucket(name, asking);
  const shown = `s3://${name}/${visible(key)}`;
  return {
    name: shown,
    hasConditions: true,
    ask: headers => bucket.ask({ method: 'GET', key, headers }),
    refuse: answer => bucket.refuse(answer, `${shown}: expected to read it`),
  };
}

function fromHub({ dataset, revision, path }: HubAddress, asking: Asking): Source {
  const hub = hubOf(asking.env);
  const name = `hf://datasets/${dataset}/${visible(path)}`;
  /** a branch may move while the file is read: from the first answer on it is this commit */
  let at = revision;
  return {
    name,
    hasConditions: false,
    ask: headers =>
      following(
        new URL(`${hub.endpoint}/datasets/${dataset}/resolve/${inQuery(at)}/${inUrl(path)}`),
        url => ({ ...headers, ...headersAt(hub, url) }),
        {
          ...{ asking, name },
          onHop: ({ 'x-repo-commit': commit }) => {
            if (typeof commit === 'string' && /^[0-9a-f]{40}$/.test(commit)) at = commit;
          },
        },
      ),
    async refuse(answer) {
      expectPassed(answer);
      answer.destroy();
      throw meaningOfHub(answer, { what: `${name}: expected to read it`, dataset, hub });
    },
  };
}

/** What stands behind the path, and before the host, may be a key: of a link that was signed. */
function fromWeb({ url }: WebAddress, asking: Asking): Source {
  const name = `${url.protocol}//${url.host}${url.pathname}`;
  return {
    name,
    hasConditions: true,
    ask: headers => following(url, () => headers, { asking, name }),
    async refuse(answer) {
      expectPassed(answer);
      answer.destroy();
      const { statusCode = 0 } = answer;
      const found = `${name}: expected to read it, found status ${statusCode}`;
      if (statusCode === 404 || statusCode === 410)
        throw dataError(`${found}: nothing is there; look at the address`);
      if (statusCode !== 401 && statusCode !== 403) throw dataError(found);
      const isSigned = url.search !== '';
      throw dataError(
        `${found}: it is not for everybody${isSigned ? ', or the link has run out; sign it again' : '; a signed link (https://…?…) names who may'}`,
      );
    },
  };
}
