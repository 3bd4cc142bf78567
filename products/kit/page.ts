/**
 * Whole pages: in one file (reports, benchmarks, plans), or as a server of ours sends them. None needs a script to be read,
 * and none asks another host for anything. Styles and scripts are those of the build (build.mjs, page.json); each style
 * begins with the theme.
 */
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../engine/core/config/package.ts';
import { Html, html, NONE, type Text } from './html.ts';

/** Headers of such a page: styles, scripts, forms and streams from here alone, and no markup by script. */
export const PAGE_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
  'x-content-type-options': 'nosniff',
  // `same-origin` since browsers send `Origin: null` without any referrer
  'referrer-policy': 'same-origin',
  'cache-control': 'no-store',
};

/** Styles and scripts by the names of their files; a page has `version` in their addresses, so that browsers may keep them. */
export function assetsOf<N extends string>(
  names: readonly N[],
): { texts: Readonly<Record<N, string>>; version: string } {
  const all = JSON.parse(readFileSync(join(packageRoot(), 'dist', 'page.json'), 'utf8'));
  const texts = Object.fromEntries(names.map(name => [name, all[name]])) as Record<N, string>;
  return { texts, version: hash('sha256', JSON.stringify(texts)).slice(0, 16) };
}

/** Of a page in one file. */
let fileStyle: string | undefined;
function style(): string {
  fileStyle ??= assetsOf(['page.css']).texts['page.css'];
  return fileStyle;
}

export interface LivePage {
  title: Text;
  /** the name of the whole, and where it begins */
  brand: string;
  home: string;
  style: string;
  /** null: it runs none */
  script: string | null;
  /** a policy in the page itself, where no server sends one */
  policy?: string;
  /** links beside the name, and what else stands in the first line */
  top: Html;
  main: Html;
  /** attributes, with a space before them */
  onBody?: Html;
  onMain?: Html;
}

export function livePage({ title, brand, home, style, script, policy, top, main, ...on }: LivePage): string {
  const { onBody = NONE, onMain = NONE } = on;
  const head: Html[] = [html`<link rel="icon" href="data:,">`, html`<link rel="stylesheet" href="${style}">`];
  if (policy !== undefined)
    head.unshift(html`<meta http-equiv="Content-Security-Policy" content="${policy}">`);
  if (script !== null) head.push(html`<script src="${script}" defer></script>`);
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
${head}
</head>
<body${onBody}>
<a class="skip" href="#main">To the content</a>
<header class="top">
<a class="brand" href="${home}">${brand}</a>
${top}
</header>
<main id="main" tabindex="-1"${onMain}>
${main}
</main>
</body>
</html>
`.text;
}

/** A whole page, of which a browser runs no script and fetches nothing. */
export function page({ title, header, main }: { title: Text; header: Text; main: Text }): string {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${title}</title>
<style>${new Html(style())}</style>
</head>
<body>
<header>
${header}
</header>
<main>
${main}
</main>
</body>
</html>
`.text;
}
