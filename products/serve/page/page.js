/**
 * Keeps a page up to date: once a second the server sends all that it shows, as texts. They are put in as text alone, so
 * nothing that a model or a file said can become markup. Without this script the page is the same, as it was when loaded.
 */

const main = document.querySelector('main');
const told = document.querySelector('[data-live]');

/** An attribute is set where it differs, so that nothing is drawn anew that is as it was. */
function set(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** The server's own addresses alone. */
const isOwn = value => value.startsWith('/ui/');

function apply(element, values) {
  const { text, show, href, action, state, width, x } = element.dataset;
  const said = name => String(values[name] ?? '');
  if (text !== undefined && element.textContent !== said(text)) element.textContent = said(text);
  if (show !== undefined && element.hidden !== (said(show) === '')) element.hidden = said(show) === '';
  if (href !== undefined && isOwn(said(href))) set(element, 'href', said(href));
  if (action !== undefined && isOwn(said(action))) set(element, 'action', said(action));
  if (state !== undefined) set(element, 'data-is', said(state));
  if (width !== undefined) set(element, 'width', Number(values[width]).toFixed(2));
  if (x !== undefined) set(element, 'x', Number(values[x]).toFixed(2));
}

/** Fills what is below `element`; a list has values of its own for each of its rows. */
function fill(element, values) {
  for (const child of element.children) {
    if (child.localName === 'template') continue;
    apply(child, values);
    const { list } = child.dataset;
    if (list === undefined) fill(child, values);
    else if (Array.isArray(values[list])) fillList(child, values[list]);
  }
}

/** Rows keep their place as long as their order is the same: focus and folds stay. */
function fillList(list, items) {
  const template = list.querySelector(':scope > template');
  const rows = new Map();
  for (const row of [...list.children])
    if (row !== template) {
      if (items.some(item => item.key === row.dataset.key)) rows.set(row.dataset.key, row);
      else row.remove();
    }
  let next = template.nextElementSibling;
  for (const item of items) {
    const row = rows.get(item.key) ?? template.content.firstElementChild.cloneNode(true);
    row.dataset.key = item.key;
    if (row === next) next = next.nextElementSibling;
    else list.insertBefore(row, next);
    apply(row, item);
    fill(row, item);
  }
}

let source;
function listen() {
  const address = main.dataset.events;
  if (address === undefined || source !== undefined) return;
  source = new EventSource(address);
  source.onmessage = event => {
    fill(main, JSON.parse(event.data));
    if (told) told.textContent = 'Live.';
  };
  source.addEventListener('gone', event => {
    if (told) told.textContent = JSON.parse(event.data);
    source.close();
  });
  source.onerror = () => {
    if (told) told.textContent = 'Not live: the server does not answer.';
    // the server said no (logged out): a browser gives up then, and who reloads is led to the log-in
    if (source.readyState === EventSource.CLOSED && told) told.textContent = 'Not live: reload the page.';
  };
}

// a browser has six connections to a server: pages that nobody sees give theirs back
document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'visible') return listen();
  source?.close();
  source = undefined;
});
if (document.visibilityState === 'visible') listen();

document.addEventListener('submit', event => {
  const form = event.target;
  const { confirm: question } = form.dataset;
  if (question !== undefined && !window.confirm(question)) return event.preventDefault();
  const sending = form.querySelector('[data-sending]');
  if (sending) sending.textContent = 'It is being sent. Keep this page open.';
  for (const button of form.querySelectorAll('button')) setTimeout(() => (button.disabled = true));
});
// who comes back to a page may send its form again
window.addEventListener('pageshow', () => {
  for (const button of document.querySelectorAll('button[disabled]')) button.disabled = false;
});
