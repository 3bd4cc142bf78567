/**
 * What all pages share: head, log-in, errors, and elements that page.js keeps up to date. Of these each says in an attribute
 * which of the values it shows; a list has the template of its rows, made by the same function as the rows themselves.
 * Nothing on a page runs or is styled but what the server sends as page.js and page.css.
 */
import { Html, html, NONE } from '../../kit/html.ts';
import { assetsOf, livePage } from '../../kit/page.ts';

const { texts, version } = assetsOf(['serve.css', 'serve.js']);
/** Of each path under /ui. */
export const ASSETS = { 'page.css': texts['serve.css'], 'page.js': texts['serve.js'] };

export interface Shell {
  title: string;
  main: Html;
  /** who is logged in; null where nobody is. `canLeave`: there are keys */
  viewer: { owner: string; canLeave: boolean; isAdmin: boolean } | null;
  /** the address of its updates */
  events?: string;
}

export function page({ title, main, viewer, events = '' }: Shell): string {
  const live = events === '' ? NONE : new Html(` data-events="${html`${events}`.text}"`);
  return livePage({
    title: `${title} · fw serve`,
    brand: 'fw serve',
    home: '/ui/',
    style: `/ui/page.css?${version}`,
    script: `/ui/page.js?${version}`,
    top: viewer === null ? NONE : menu(viewer),
    main,
    onMain: live,
  });
}

function menu({ owner, canLeave, isAdmin }: NonNullable<Shell['viewer']>): Html {
  const leave = html`<form method="post" action="/ui/logout"><button class="quiet">Log out</button></form>`;
  return html`<nav aria-label="Pages"><a href="/ui/">Batches</a> <a href="/ui/new">Start a batch</a>
${isAdmin ? html`<a href="/ui/admin">Keys and endpoints</a>` : NONE}</nav>
<div class="who"><span>${owner}</span>${canLeave ? leave : NONE}</div>`;
}

export function loginPage(problem: string): Html {
  return html`<h1>Log in</h1>
<p>With a key of this server, as <code>fw keys add NAME</code> has shown it. The browser gets a cookie for this
page alone, for twelve hours.</p>
${problem === '' ? NONE : html`<p class="problem" role="alert">${problem}</p>`}
<form method="post" action="/ui/login" class="fields">
<label for="key">Key</label>
<input id="key" name="key" type="password" required autofocus autocomplete="current-password" maxlength="200">
<button>Log in</button>
</form>`;
}

export function errorPage(
  status: number,
  message: string,
  { href, words } = { href: '/ui/', words: 'To all batches' },
): Html {
  return html`<h1>${status === 404 ? 'Not found' : 'That did not work'}</h1>
<p class="problem" role="alert">${message}</p>
<p><a href="${href}">${words}</a></p>`;
}

/** Its text is the value `name`. */
export const text = (name: string, value: string): Html => html`<span data-text="${name}">${value}</span>`;

/** A table cell with a value; its column's name is shown where a narrow page has no heads. */
export function cell(label: string, name: string, value: string, kind = ''): Html {
  return html`<td data-label="${label}" class="${kind}" data-text="${name}">${value}</td>`;
}

/** What an element needs to be hidden while the value `name` is empty. */
export function shownBy(name: string, value: string): Html {
  return value === '' ? html` data-show="${name}" hidden` : html` data-show="${name}"`;
}

/** The rows of `items`, for the inside of an element with `data-list`. */
export function rows<T>(items: readonly T[], blank: T, row: (item: T) => Html): Html {
  return html`<template>${row(blank)}</template>${items.map(row)}`;
}

export interface Column {
  label: string;
  isNumber?: boolean;
}

export function table(name: string, caption: string, columns: readonly (Column | null)[], body: Html): Html {
  const heads = columns
    .filter(column => column !== null)
    .map(({ label, isNumber }) => html`<th scope="col" class="${isNumber ? 'n' : ''}">${label}</th>`);
  return html`<table class="rows"><caption class="unseen">${caption}</caption><thead><tr>${heads}</tr></thead>
<tbody data-list="${name}">${body}</tbody></table>`;
}

/** Done and failed, of 100. */
export function bar(good: number, bad: number, words: string): Html {
  return html`<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label="${words}">
<rect class="good" data-width="good" x="0" y="0" height="8" width="${good.toFixed(2)}"></rect>
<rect class="bad" data-x="good" data-width="bad" x="${good.toFixed(2)}" y="0" height="8" width="${bad.toFixed(2)}"></rect></svg>`;
}
