/**
 * What all pages of fw view share. A page is whole without a script: what is chosen stands in its address. view.js adds
 * scrolling without an end, keys, and rows that were not there yet.
 */
import { type Html, html, NONE } from '../kit/html.ts';
import { assetsOf, livePage } from '../kit/page.ts';

const { texts, version } = assetsOf(['view.css', 'view.js']);
export const ASSETS = texts;

export interface Shell {
  title: string;
  /** what view.js does here: '' where nobody is let in */
  kind: 'table' | 'item' | 'other' | '';
  /** links beside the name, and what else stands in the first line */
  top: Html;
  main: Html;
}

export function page({ title, kind, top, main }: Shell): string {
  return livePage({
    title: `${title} · fw view`,
    brand: 'fw view',
    home: '/',
    style: `/view.css?${version}`,
    script: kind === '' ? null : `/view.js?${version}`,
    top,
    main,
    onBody: html` class="is-${kind}"`,
  });
}

/** A page of a static folder: no script, and nothing from anywhere but its folder. */
export function stillPage({ title, top, main }: Omit<Shell, 'kind'>): string {
  return livePage({
    title,
    brand: 'fw view',
    home: 'index.html',
    style: 'view.css',
    script: null,
    policy:
      "default-src 'none'; style-src 'self' file:; img-src 'self' data:; form-action 'none'; base-uri 'none'",
    top,
    main,
    onBody: html` class="is-still"`,
  });
}

export function troublePage(title: string, message: string, way: Html = NONE): string {
  return page({
    title,
    kind: '',
    top: NONE,
    main: html`<div class="text"><h1>${title}</h1><p class="problem" role="alert">${message}</p>${way}</div>`,
  });
}
