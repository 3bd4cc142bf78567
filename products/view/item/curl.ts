/**
 * A request as a command that sends it again. The body goes in by a heredoc whose end no line of it is, so that no byte of it
 * is ever read by the shell; the key comes from the environment, and is never here.
 */
import { createHash } from 'node:crypto';
import { number } from '../../../engine/core/item/wording.ts';
import { type Html, html } from '../../kit/html.ts';
import { folded, type Writer } from './writer.ts';

export interface Sent {
  /** base URL of the endpoint, such as http://gpu1:8005/v1; null where nobody knows */
  endpoint: string | null;
  /** below the base URL; of a raw request below the server */
  path: string;
  isRaw: boolean;
  /** JSON, as it went over the wire */
  body: string;
}

/** Bytes of a command that a page has. */
const LONGEST = 150_000;

/** null where a judge must not see what is in it. */
export function curlParts(sent: Sent, writer: Writer): Html | null {
  if (writer.hidden !== null) return null;
  const most = Math.min(LONGEST, writer.left / 2);
  const command = sent.body.length + sent.path.length > most ? null : curlCommand(sent);
  // half of a command would be worse than none
  if (command === null || Buffer.byteLength(html`${command}`.text) > most)
    return html`<p class="dim">${writer.leftOut(`The request has ${number(Buffer.byteLength(sent.body))} bytes: too many to be a command on this page.`)}</p>`;
  return folded('The request as curl', writer.block(command, command.length));
}

export function curlCommand({ endpoint, path, isRaw, body }: Sent): string {
  const text = safe(body);
  // the path of a raw request is one of the server, and begins with /v1 itself
  const base = endpoint?.replace(isRaw ? /\/(v1\/?)?$/ : /\/$/, '');
  const where = base === undefined ? `"$ENDPOINT"${quoted(path)}` : quoted(base + path);
  const end = `END_OF_BODY_${createHash('sha256').update(text).digest('hex').slice(0, 12)}`;
  return [
    `curl -sS ${where} \\`,
    `  -H 'Content-Type: application/json' -H "Authorization: Bearer $API_KEY" \\`,
    `  --data-binary @- <<'${end}'`,
    text,
    end,
  ].join('\n');
}

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/**
 * The same JSON without a character that a page would show as its code: in JSON those stand inside of strings, but for the
 * carriage returns of line ends.
 */
function safe(body: string): string {
  return body
    .replaceAll('\r', '')
    .replace(/(?![\n\t])[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]|(?![\u200c\u200d])\p{Cf}/gu, character =>
      Array.from(
        { length: character.length },
        (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`,
      ).join(''),
    );
}
