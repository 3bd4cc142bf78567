/** Headers of pages that a server of ours makes: styles, scripts, forms and streams from here alone, and no markup by script. */
export const PAGE_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
  'x-content-type-options': 'nosniff',
  // `same-origin` since browsers send `Origin: null` without any referrer
  'referrer-policy': 'same-origin',
  'cache-control': 'no-store',
};
