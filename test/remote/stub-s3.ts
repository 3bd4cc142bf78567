/**
 * A store that speaks as much of S3 as fw asks for, in memory. It works out every signature anew, by the rules of the document
 * "Signature Version 4" and node:crypto alone, and answers 403 where one differs.
 */
import { createHash, createHmac } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

export const KEYS = { AWS_ACCESS_KEY_ID: 'AKIDSTUB', AWS_SECRET_ACCESS_KEY: 'secret/of+the stub' };
export const REGION = 'eu-central-1';

export interface Asked {
  /** `PUT /bucket/key?partNumber=1…` without values that differ from run to run */
  line: string;
  method: string;
  key: string;
  query: URLSearchParams;
  headers: IncomingMessage['headers'];
}

/** What happens in place of an answer: a status with a code, the connection cut, or silence (after so many bytes of the body). */
export type Fault =
  | { status: number; code?: string; headers?: Record<string, string> }
  | { cutAfter: number }
  | { silentAfter: number }
  | 'silence'
  | null;

export interface Stub {
  url: string;
  env: Record<string, string>;
  objects: Map<string, Buffer>;
  uploads: Map<string, Upload>;
  asked: Asked[];
  /** asked for each request that was signed as it should be; `body` is what it sent */
  fault(asked: Asked, body: Buffer): Fault | Promise<Fault>;
  /** called once the answer is known, before it is sent */
  onDone(asked: Asked): void | Promise<void>;
  close(): void;
}

interface Upload {
  key: string;
  headers: IncomingMessage['headers'];
  parts: Map<number, Buffer>;
}

const sha = (data: Buffer | string): string => createHash('sha256').update(data).digest('hex');
const hmac = (key: Buffer | string, text: string): Buffer => createHmac('sha256', key).update(text).digest();
const etagOf = (body: Buffer): string => `"${createHash('md5').update(body).digest('hex')}"`;
const strict = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, one => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);

/** Why a request is refused; null where it is signed as it should be. */
export function wrongSignature(request: IncomingMessage, body: Buffer, secret: string): string | null {
  const { authorization = '', ...headers } = request.headers;
  const match =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/.exec(
      authorization,
    );
  if (match === null) return 'AccessDenied';
  const [, id, day, region, names, signature] = match as unknown as string[];
  if (id !== KEYS.AWS_ACCESS_KEY_ID) return 'InvalidAccessKeyId';
  if (region !== REGION) return 'AuthorizationHeaderMalformed';
  if (headers['x-amz-content-sha256'] !== sha(body)) return 'XAmzContentSHA256Mismatch';
  const signed = (names as string).split(';');
  const amz = Object.keys(headers).filter(name => name.startsWith('x-amz-'));
  if (!['host', ...amz].every(name => signed.includes(name))) return 'AccessDenied';
  const expected = signatureOf(request, { day: day as string, region: region as string, signed, secret });
  return expected === signature ? null : 'SignatureDoesNotMatch';
}

export function signatureOf(
  { method, url = '', headers }: Pick<IncomingMessage, 'method' | 'url' | 'headers'>,
  { day, region, signed, secret }: { day: string; region: string; signed: string[]; secret: string },
): string {
  const [path = '', query = ''] = url.split('?');
  const pairs = query
    .split('&')
    .filter(Boolean)
    .map(pair => pair.split('=').map(part => strict(decodeURIComponent(part))));
  const canonical = [
    method,
    path
      .split('/')
      .map(part => strict(decodeURIComponent(part)))
      .join('/'),
    pairs
      .map(([name, value = '']) => `${name}=${value}`)
      .sort()
      .join('&'),
    ...signed.map(name => `${name}:${String(headers[name]).trim().replace(/ +/g, ' ')}`),
    '',
    signed.join(';'),
    headers['x-amz-content-sha256'],
  ].join('\n');
  const date = String(headers['x-amz-date']);
  const scope = `${day}/${region}/s3/aws4_request`;
  const key = [day, region, 's3', 'aws4_request'].reduce<Buffer | string>(
    (under, part) => hmac(under, part),
    `AWS4${secret}`,
  );
  return hmac(key, ['AWS4-HMAC-SHA256', date, scope, sha(canonical)].join('\n')).toString('hex');
}

export async function stubS3(): Promise<Stub> {
  const objects = new Map<string, Buffer>();
  const meta = new Map<string, Record<string, string>>();
  const uploads = new Map<string, Upload>();
  let made = 0;
  const server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', piece => pieces.push(piece));
    request.on('error', () => {});
    request.on('end', () => void take(request, Buffer.concat(pieces), response));
  });
  const stub: Stub = {
    ...{ url: '', env: {}, objects, uploads, asked: [] },
    fault: () => null,
    onDone: () => {},
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };

  async function take(request: IncomingMessage, body: Buffer, response: ServerResponse): Promise<void> {
    const url = new URL(request.url as string, 'http://stub');
    const key = decodeURIComponent(url.pathname).replace(/^\/bucket\//, '');
    const query = new URLSearchParams(url.search);
    const method = request.method as string;
    const shown = [...query.keys()].map(name =>
      name === 'partNumber' ? `${name}=${query.get(name)}` : name,
    );
    const asked = {
      line: `${method} ${key}${shown.length ? `?${shown.join('&')}` : ''}`,
      method,
      key,
      query,
      headers: request.headers,
    };
    stub.asked.push(asked);
    const refusal = (status: number, code: string, more: Record<string, string> = {}): void => {
      const text =
        method === 'HEAD'
          ? ''
          : `<?xml version="1.0"?>\n<Error><Code>${code}</Code><Message>m</Message></Error>`;
      response.writeHead(status, { 'content-type': 'application/xml', ...more }).end(text);
    };
    const wrong = wrongSignature(request, body, KEYS.AWS_SECRET_ACCESS_KEY);
    if (wrong === 'AuthorizationHeaderMalformed')
      return refusal(400, wrong, { 'x-amz-bucket-region': REGION });
    if (wrong !== null) return refusal(403, wrong);
    if (!url.pathname.startsWith('/bucket/')) return refusal(404, 'NoSuchBucket');
    const fault = await stub.fault(asked, body);
    if (fault === 'silence') return;
    if (fault !== null && 'status' in fault) return refusal(fault.status, fault.code ?? '', fault.headers);
    const answer = act(asked, body);
    await stub.onDone(asked);
    if (response.destroyed) return;
    if (answer.status >= 400) return refusal(answer.status, String(answer.body));
    response.writeHead(answer.status, { ...answer.headers, 'content-length': answer.body.length });
    if (fault === null) return void response.end(method === 'HEAD' ? '' : answer.body);
    if ('silentAfter' in fault) return void response.write(answer.body.subarray(0, fault.silentAfter));
    response.write(answer.body.subarray(0, fault.cutAfter), () => response.destroy());
  }

  interface Answer {
    status: number;
    headers: Record<string, string>;
    body: Buffer;
  }
  const text = (body: string, status = 200): Answer => ({ status, headers: {}, body: Buffer.from(body) });

  function act({ method, key, query, headers }: Asked, body: Buffer): Answer {
    const uploadId = query.get('uploadId');
    const upload = uploadId === null ? undefined : uploads.get(uploadId);
    if (uploadId !== null && upload?.key !== key) return text('NoSuchUpload', 404);
    if (method === 'GET' && query.has('list-type')) return text(list(query));
    if (method === 'GET' && query.has('uploads')) {
      const known = [...uploads].filter(([, of]) => of.key.startsWith(query.get('prefix') ?? ''));
      return text(
        `<ListMultipartUploadsResult>${known.map(([id, of]) => `<Upload><Key>${of.key}</Key><UploadId>${id.replaceAll('&', '&amp;')}</UploadId><Initiated>2026-01-02T03:04:05.000Z</Initiated></Upload>`).join('')}</ListMultipartUploadsResult>`,
      );
    }
    if (method === 'POST' && query.has('uploads')) {
      made += 1;
      uploads.set(`u/${made}+&`, { key, headers, parts: new Map() });
      return text(
        `<InitiateMultipartUploadResult><UploadId>u/${made}+&amp;</UploadId></InitiateMultipartUploadResult>`,
      );
    }
    if (method === 'PUT' && upload) {
      upload.parts.set(Number(query.get('partNumber')), body);
      return { status: 200, headers: { etag: etagOf(body) }, body: Buffer.alloc(0) };
    }
    if (method === 'POST' && upload) return complete(uploadId as string, upload, body.toString());
    if (method === 'DELETE' && upload) {
      uploads.delete(uploadId as string);
      return { status: 204, headers: {}, body: Buffer.alloc(0) };
    }
    if (method === 'PUT') {
      const source = /^\/bucket\/(.*)$/.exec(
        decodeURIComponent(String(headers['x-amz-copy-source'] ?? '')),
      )?.[1];
      const whole = source === undefined ? body : objects.get(source);
      if (whole === undefined) return text('NoSuchKey', 404);
      objects.set(key, whole);
      return { status: 200, headers: { etag: etagOf(body) }, body: Buffer.alloc(0) };
    }
    return part(key, headers);
  }

  function complete(uploadId: string, upload: Upload, xml: string): Answer {
    const named = [...xml.matchAll(/<PartNumber>(\d+)<\/PartNumber><ETag>(.*?)<\/ETag>/g)].map(
      ([, number, etag]) => ({ number: Number(number), etag: (etag as string).replaceAll('&#34;', '"') }),
    );
    const bodies = named.map(({ number }) => upload.parts.get(number));
    const areRight = named.every(
      ({ number, etag }, at) => bodies[at] && etagOf(bodies[at]) === etag && number === at + 1,
    );
    if (named.length === 0 || !areRight) return text('InvalidPart', 400);
    const isSmall = bodies.slice(0, -1).some(each => (each as Buffer).length < 5 * 1024 * 1024);
    if (isSmall) return text('EntityTooSmall', 400);
    uploads.delete(uploadId);
    objects.set(upload.key, Buffer.concat(bodies as Buffer[]));
    const own = Object.entries(upload.headers).filter(([name]) => name.startsWith('x-amz-meta-'));
    meta.set(upload.key, Object.fromEntries(own) as Record<string, string>);
    return text('<CompleteMultipartUploadResult/>');
  }

  function part(key: string, headers: Asked['headers']): Answer {
    const whole = objects.get(key);
    if (whole === undefined) return text('NoSuchKey', 404);
    const etag = etagOf(whole);
    if (headers['if-match'] !== undefined && headers['if-match'] !== etag)
      return text('PreconditionFailed', 412);
    const common = { etag, 'accept-ranges': 'bytes', ...meta.get(key) };
    const range = /^bytes=(\d+)-(\d*)$/.exec(headers.range ?? '');
    if (range === null) return { status: 200, headers: common, body: whole };
    const from = Number(range[1]);
    const to = Math.min(whole.length, range[2] ? Number(range[2]) + 1 : whole.length);
    if (from >= whole.length) return text('InvalidRange', 416);
    return {
      status: 206,
      headers: { ...common, 'content-range': `bytes ${from}-${to - 1}/${whole.length}` },
      body: whole.subarray(from, to),
    };
  }

  /** Two keys a page, so that there are pages. */
  function list(query: URLSearchParams): string {
    const prefix = query.get('prefix') ?? '';
    const after = query.get('continuation-token') ?? '';
    const keys = [...objects.keys()].filter(key => key.startsWith(prefix) && key > after).sort();
    const page = keys.slice(0, 2);
    const more = keys.length > 2;
    const contents = page.map(
      key => `<Contents><Key>${strict(key).replaceAll('%2F', '/')}</Key><Size>1</Size></Contents>`,
    );
    return `<ListBucketResult><EncodingType>url</EncodingType>${contents.join('')}<IsTruncated>${more}</IsTruncated>${
      more ? `<NextContinuationToken>${page.at(-1)}</NextContinuationToken>` : ''
    }</ListBucketResult>`;
  }

  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  stub.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const others = { AWS_PROFILE: '', AWS_SESSION_TOKEN: '', AWS_ENDPOINT_URL_S3: '' };
  stub.env = { ...KEYS, ...others, AWS_REGION: REGION, AWS_ENDPOINT_URL: stub.url };
  return stub;
}

/** One for a test. */
export async function ownStub(): Promise<Stub> {
  const stub = await stubS3();
  onTestFinished(stub.close);
  return stub;
}
