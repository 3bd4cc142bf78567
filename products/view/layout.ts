/**
 * What all pages of fw view share. A page is whole without a script: what is chosen stands in its address. view.js adds
 * scrolling without an end, keys, and rows that were not there yet.
 */
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../engine/core/config/package.ts';
import { type Html, html, NONE } from '../kit/html.ts';

/** Texts of the package, made at the build. */
const texts = JSON.parse(readFileSync(join(packageRoot(), 'dist', 'page.json'), 'utf8')) as Readonly<
  Record<'view.css' | 'item-page.css' | 'view.js', string>
>;
export const ASSETS = { 'view.css': texts['view.css'] + texts['item-page.css'], 'view.js': texts['view.js'] };
/** in their addresses, so that a browser may keep them until they change */
const VERSION = hash('sha256', ASSETS['view.css'] + ASSETS['view.js']).slice(0, 16);

export interface Shell {
  title: string;
  /** what view.js does here: '' where nobody is let in */
  kind: 'table' | 'item' | 'other' | '';
  /** links beside the name, and what else stands in the first line */
  top: Html;
  main: Html;
}

export function page({ title, kind, top, main }: Shell): string {
  const script = kind === '' ? NONE : html`<script src="/view.js?${VERSION}" defer></script>`;
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title} · fw view</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/view.css?${VERSION}">
${script}
</head>
<body class="is-${kind}">
<a class="skip" href="#main">To the content</a>
<header class="top">
<a class="brand" href="/">fw view</a>
${top}
</header>
<main id="main" tabindex="-1">
${main}
</main>
</body>
</html>
`.text;
}

/** A page of a static folder: no script, and nothing from anywhere but its folder. */
export function stillPage({ title, top, main }: Omit<Shell, 'kind'>): string {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'self' file:; img-src 'self' data:; form-action 'none'; base-uri 'none'">
<title>${title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="view.css">
</head>
<body class="is-still">
<a class="skip" href="#main">To the content</a>
<header class="top">
<a class="brand" href="index.html">fw view</a>
${top}
</header>
<main id="main" tabindex="-1">
${main}
</main>
</body>
</html>
`.text;
}

export function troublePage(title: string, message: string, way: Html = NONE): string {
  return page({
    title,
    kind: '',
    top: NONE,
    main: html`<div class="text"><h1>${title}</h1><p class="problem" role="alert">${message}</p>${way}</div>`,
  });
}
