/**
 * Chat messages as the model saw them, role by role. An image that came with the request as a data: URL is shown; whatever
 * lies elsewhere is named, and never fetched.
 */
import { counted, number } from '../../../engine/core/item/wording.ts';
import { isObject, type JsonObject } from '../../../engine/core/json/pointer.ts';
import { type Html, html, joined, NONE } from '../../kit/html.ts';
import { folded, jsonText, LONG_TEXT, type Writer } from './writer.ts';

const MOST_MESSAGES = 200;
const MOST_PARTS = 50;

/** What stands in a request's `messages`, `prompt` or `input`; anything else is shown as JSON. */
export function messageParts(messages: unknown, writer: Writer): Html {
  if (typeof messages === 'string') return message('prompt', writer.block(messages), writer);
  if (!Array.isArray(messages)) return writer.block(jsonText(messages));
  if (messages.length === 0) return html`<p class="dim">(no messages)</p>`;
  const parts = writer.list(
    messages,
    one =>
      isObject(one) && ('role' in one || 'content' in one)
        ? message(wordOf(one.role) || 'no role', contentOf(one, writer), writer)
        : message('text', typeof one === 'string' ? writer.block(one) : writer.block(jsonText(one)), writer),
    { most: MOST_MESSAGES, what: 'message' },
  );
  return html`<div class="messages">${parts}</div>`;
}

const wordOf = (value: unknown): string => (typeof value === 'string' ? value : '');

const ROLES = ['system', 'developer', 'user', 'assistant', 'tool', 'prompt'];

function message(role: string, content: Html, writer: Writer): Html {
  const known = ROLES.includes(role) ? role : 'other';
  return html`<div class="message ${known}"><p class="role">${writer.text(role, 60)}</p>${content}</div>`;
}

/** Its text or its parts, what was thought before it, and calls of tools. */
export function contentOf(one: JsonObject, writer: Writer): Html {
  const { role: _role, content, reasoning_content: thought, reasoning, tool_calls: calls, ...rest } = one;
  const parts = [reasoningOf(thought ?? reasoning, writer)];
  if (typeof content === 'string') parts.push(writer.block(content));
  else if (Array.isArray(content))
    parts.push(...writer.list(content, part => partOf(part, writer), { most: MOST_PARTS, what: 'part' }));
  else if (content !== undefined && content !== null) parts.push(writer.block(jsonText(content)));
  if (calls !== undefined && calls !== null && !(Array.isArray(calls) && calls.length === 0))
    parts.push(html`<p class="role">calls of tools</p>${writer.block(jsonText(calls))}`);
  const others = Object.entries(rest).filter(([, value]) => value !== null && value !== undefined);
  if (others.length > 0)
    parts.push(html`<p class="dim">${writer.text(jsonText(Object.fromEntries(others)), 1_000)}</p>`);
  return joined(parts);
}

/** What a model thought before it answered, folded. */
export function reasoningOf(text: unknown, writer: Writer): Html {
  if (text === undefined || text === null || text === '') return NONE;
  const words = typeof text === 'string' ? text : jsonText(text);
  return folded(`Reasoning, ${counted(words.length, 'character')}`, writer.block(words));
}

function partOf(part: unknown, writer: Writer): Html {
  if (!isObject(part)) return writer.block(jsonText(part));
  const { type, text, image_url: image } = part;
  if (typeof text === 'string' && wordOf(type).endsWith('text')) return writer.block(text);
  const url = isObject(image) ? image.url : image;
  if (typeof url === 'string') return imageOf(url, writer);
  return writer.block(partText(part));
}

/** Sounds and files stand in a part as base64: their beginning says what they are. */
function partText(part: JsonObject): string {
  const shortened = (value: unknown, levels: number): unknown => {
    if (typeof value === 'string' && value.length > 2_000)
      return `${value.slice(0, 60)}… (${counted(value.length, 'character')})`;
    if (!isObject(value) || levels === 0) return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, inner]) => [key, shortened(inner, levels - 1)]),
    );
  };
  return jsonText(shortened(part, 3));
}

const DATA = /^data:image\/(png|jpeg|gif|webp);base64,/;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

function imageOf(url: string, writer: Writer): Html {
  const [head = '', kind = ''] = DATA.exec(url.slice(0, 40)) ?? [];
  if (head === '')
    return html`<p class="image">An image, which is not fetched: <code>${writer.text(url, 500)}</code></p>`;
  const data = url.slice(head.length);
  const size = `${kind.toUpperCase()}, ${number(Math.floor((data.length * 3) / 4))} bytes`;
  if (!BASE64.test(data)) return html`<p class="image">An image (${size}) whose base64 is broken.</p>`;
  if (!writer.takesImage(url.length))
    return html`<p class="image">An image (${size}). ${writer.leftOut('It is too large for this page.')}</p>`;
  return html`<p class="image"><img src="${url}" alt="An image of the request (${size})"></p>`;
}

/** What was asked, of the body of a request to any URL that servers of models have. */
export function bodyParts(body: JsonObject, writer: Writer): Html {
  const { messages, prompt, input, model, ...parameters } = body;
  const asked = messages ?? prompt ?? input;
  const named = Object.entries(parameters);
  const rest =
    named.length === 0
      ? NONE
      : folded(counted(named.length, 'parameter'), writer.block(jsonText(parameters), LONG_TEXT / 2));
  const of = typeof model === 'string' ? html`<p class="facts">model ${writer.text(model, 200)}</p>` : NONE;
  return html`${of}${asked === undefined ? writer.block(jsonText(body)) : messageParts(asked, writer)}${rest}`;
}
