/** HTML as values: whatever is put into a template is escaped, unless it is HTML that a template made. */
import { visibleLines } from '../../../engine/core/json/visible.ts';

export class Html {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

type Part = string | number | Html | readonly Html[];

/** Of a template: its own text is HTML, what it is given is text, of an element or of an attribute in double quotes. */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Html {
  let text = strings[0] as string;
  parts.forEach((part, at) => {
    text += textOf(part) + strings[at + 1];
  });
  return new Html(text);
}

function textOf(part: Part): string {
  if (part instanceof Html) return part.text;
  if (typeof part === 'object') return part.map(one => one.text).join('\n');
  return escaped(String(part));
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Any text, a model's too, as it may be on a screen: what would turn or hide text is shown as its code. Line breaks stay. */
export const shown = (text: string): string => visibleLines(text).join('\n');

function escaped(text: string): string {
  return shown(text).replace(/[&<>"']/g, character => ENTITIES[character] as string);
}

/** Nothing. */
export const NONE = new Html('');
