/** The JSON of what a server answered: made once, for its hash and for the line of a batch file that has it. */

const texts = new WeakMap<object, string>();

/** `JSON.stringify(body)`. Nobody changes a body: stages return new objects. */
export function textOfBody(body: unknown): string {
  if (typeof body !== 'object' || body === null) return JSON.stringify(body) ?? '';
  let text = texts.get(body);
  if (text === undefined) {
    text = JSON.stringify(body);
    texts.set(body, text);
  }
  return text;
}
