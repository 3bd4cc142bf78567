/**
 * What a page of fw view can do beyond links and forms: rows as they are scrolled to, rows that were not there yet, keys,
 * and judging without waiting for a page. What comes is put in as text alone. Without this script all else works.
 */

const scroller = document.querySelector('.scroller[data-search]');
const list = document.querySelector('.scroller:not([data-search])');
const judge = document.querySelector('form[data-judge]');
const keys = document.querySelector('#keys');

/** Pixels of a row; view.css has the same. */
const ROW = 30;
/** Rows that are asked for at once, and answers that are kept. */
const BLOCK = 100;
const MOST_BLOCKS = 60;
/** Pixels that browsers let an element be high, with room to spare: beyond, a place is a share of all and not a length. */
const HIGHEST = 8_000_000;
/** ms between two looks at whether there is more */
const SOON = 1_000;
const LATER = 3_000;
/** Times as many rows as a page was made for, at which it is made anew. */
const GROWN = 1.2;

/* ── The table ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/**
 * Of all rows those in the window are elements. They stand still at the top of the scroller (position: sticky) while an
 * element as high as all rows together moves behind them; so a row is never missing while it is scrolled, only late.
 */
function startTable() {
  const { search, query, from, count, columns, classes } = scroller.dataset;
  const names = JSON.parse(columns);
  const kinds = JSON.parse(classes);
  const table = scroller.querySelector('table');
  const body = table.tBodies[0];
  const empty = scroller.querySelector('.empty');
  const tall = document.createElement('div');
  const pane = document.createElement('div');
  tall.className = 'tall';
  pane.className = 'pane';
  // what the first rows need is what all have: a column that became wider by and by would move the others
  const widths = [...table.tHead.rows[0].cells].map(cell => Math.ceil(cell.getBoundingClientRect().width));
  table.before(tall);
  tall.append(pane);
  pane.append(table);
  document.body.classList.add('is-live');
  const used = widths.reduce((sum, width) => sum + width, 0);
  // what is left goes to the last column, where that is text: numbers stay near what they are about
  if (!kinds.at(-1)?.startsWith('n ')) widths[widths.length - 1] += Math.max(0, scroller.clientWidth - used);
  [...table.tHead.rows[0].cells].forEach((cell, at) => {
    cell.style.width = `${widths[at]}px`;
  });
  table.style.width = `${widths.reduce((sum, width) => sum + width, 0)}px`;

  let all = Number(count);
  const begunWith = all;
  /** the row at the top, and the part of it that is scrolled out of sight */
  let top = Math.min(Number(from), Math.max(0, all - 1));
  /** the row that the keys are on; -1 before the first key */
  let on = -1;
  let last = 0;
  const blocks = new Map();
  const asked = new Set();
  const rows = new Map();

  const head = () => table.tHead.offsetHeight;
  const room = () => Math.max(1, (scroller.clientHeight - head()) / ROW);
  const lastTop = () => Math.max(0, all - room());
  const reach = () => Math.max(0, scroller.scrollHeight - scroller.clientHeight);
  const isExact = () => all * ROW + head() <= HIGHEST;

  function resize() {
    const height = `${Math.min(HIGHEST, all * ROW + head())}px`;
    if (tall.style.height !== height) tall.style.height = height;
    pane.style.height = `${Math.min(scroller.clientHeight, all * ROW + head() + 1)}px`;
  }

  /** Puts the scroll bar where `top` is; the event that follows finds nothing moved. */
  function settle() {
    const share = lastTop() === 0 ? 0 : top / lastTop();
    scroller.scrollTop = isExact() ? top * ROW : share * reach();
    last = scroller.scrollTop;
  }

  let settling;
  function scrolled() {
    const now = scroller.scrollTop;
    const moved = now - last;
    if (moved === 0) return;
    last = now;
    // where a pixel stands for many rows, a turn of the wheel still moves by what it says, and the bar follows afterwards
    const isNear = !isExact() && Math.abs(moved) < scroller.clientHeight * 2 && now > 0 && now < reach() - 1;
    if (isExact()) top = now / ROW;
    else if (isNear) top += moved / ROW;
    else top = reach() === 0 ? 0 : (now / reach()) * lastTop();
    top = Math.min(lastTop(), Math.max(0, top));
    draw();
    clearTimeout(settling);
    settling = setTimeout(() => {
      if (!isExact()) settle();
      note();
    }, 150);
  }

  /** Goes to a row, so that it is seen. */
  function show(row) {
    if (row < top) top = row;
    else if (row + 1 > top + room()) top = Math.min(lastTop(), row + 1 - room());
    settle();
    draw();
    clearTimeout(settling);
    settling = setTimeout(note, 150);
  }

  /** The address has the place, so that whoever comes back from an item is where it was. */
  function note() {
    const url = new URL(location.href);
    const place = Math.round(top);
    if (place === 0) url.searchParams.delete('from');
    else url.searchParams.set('from', place);
    if (url.href !== location.href) history.replaceState(null, '', url);
  }

  function draw() {
    resize();
    const first = Math.floor(top);
    const end = Math.min(all, Math.ceil(top + room()) + 1);
    for (const [index, row] of rows)
      if (index < first || index >= end) {
        if (row.contains(document.activeElement)) scroller.focus({ preventScroll: true });
        row.remove();
        rows.delete(index);
      }
    let next = body.firstElementChild;
    for (let index = first; index < end; index++) {
      let row = rows.get(index);
      if (row === undefined) {
        row = blank(index);
        rows.set(index, row);
      }
      if (row === next) next = next.nextElementSibling;
      else body.insertBefore(row, next);
      fill(row, index);
    }
    pane.scrollTop = (top - first) * ROW;
    if (empty) empty.hidden = all > 0;
    ask(first, end);
  }

  function blank(index) {
    const row = document.createElement('tr');
    row.setAttribute('aria-rowindex', index + 2);
    row.dataset.index = index;
    const first = document.createElement('th');
    first.scope = 'row';
    first.className = 'n';
    const link = document.createElement('a');
    link.tabIndex = 0; // it has the focus before it has an address
    first.append(link);
    row.append(first, ...kinds.map(kind => Object.assign(document.createElement('td'), { className: kind })));
    return row;
  }

  function fill(row, index) {
    const cells = blocks.get(Math.floor(index / BLOCK))?.[index % BLOCK];
    row.classList.toggle('on', index === on);
    row.classList.toggle('late', cells === undefined);
    if (row.cells_ === cells) return;
    row.cells_ = cells;
    const [number, ...texts] = cells ?? [];
    const link = row.firstElementChild.firstElementChild;
    if (number === undefined) link.removeAttribute('href');
    else {
      link.href = `/item/${number}${query}`;
      link.setAttribute('aria-label', `Row ${number + 1}`);
    }
    link.textContent = number === undefined ? '…' : (number + 1).toLocaleString('en');
    kinds.forEach((_, at) => {
      const cell = row.children[at + 1];
      const text = texts[at] ?? '';
      cell.textContent = text;
      if (text !== '' && ['rung', 'failure', 'verdict'].includes(names[at])) cell.dataset.is = text;
      else delete cell.dataset.is;
    });
  }

  /** Asks for what is in sight and not here. */
  function ask(first, end) {
    for (let block = Math.floor(first / BLOCK); block * BLOCK < end; block++) {
      const have = blocks.get(block)?.length ?? 0;
      const wanted = Math.min(BLOCK, all - block * BLOCK);
      if (have >= wanted || asked.has(block)) continue;
      void fetchBlock(block, have);
    }
  }

  let version = 0;
  async function fetchBlock(block, have) {
    asked.add(block);
    const asking = version;
    const url = new URL(`/rows${search}`, location.href);
    url.searchParams.set('from', block * BLOCK + have);
    url.searchParams.set('count', BLOCK - have);
    try {
      const found = await answerOf(url);
      if (asking !== version) return;
      blocks.set(block, [...(blocks.get(block) ?? []).slice(0, have), ...found.cells]);
      for (const kept of blocks.keys()) {
        if (blocks.size <= MOST_BLOCKS) break;
        if (kept !== block) blocks.delete(kept);
      }
      told(found);
      asked.delete(block);
      // the rest of the block, where lines are long, is asked for when it is drawn; an empty answer asks no more by itself
      if (found.cells.length > 0) draw();
    } catch (error) {
      sum('progress', `· ${error.message}`);
      setTimeout(() => asked.delete(block), SOON);
    }
  }

  const sums = new Map([...document.querySelectorAll('[data-sum]')].map(one => [one.dataset.sum, one]));
  function sum(name, text) {
    const at = sums.get(name);
    if (at && at.textContent !== text) at.textContent = text;
  }

  /** What a server says of all rows, with each answer. */
  let isDone = false;
  function told({ selected, of, done, progress }) {
    sum('selected', selected.toLocaleString('en'));
    sum('of', of.toLocaleString('en'));
    sum('progress', progress);
    isDone = done;
    if (done && selected > GROWN * begunWith && isIdle()) return location.reload();
    if (selected === all) return;
    // sorted or chosen anew, a row may be at another place by now
    if (selected < all || new URLSearchParams(search).has('sort')) {
      version += 1;
      blocks.clear();
      asked.clear();
    }
    const isAtEnd = top > 0 && top >= lastTop() - 1 && all > room();
    all = selected;
    table.setAttribute('aria-rowcount', all + 1);
    if (!isAtEnd && !isExact()) settle();
    draw();
  }

  /** Nobody has begun to read: then the counts at the side, and what stands above, are made anew with the rows. */
  const isIdle = () =>
    top === 0 && on < 0 && !keys?.open && [document.body, scroller].includes(document.activeElement);

  async function look() {
    if (document.visibilityState === 'visible') {
      try {
        told(await answerOf(`/rows${search === '' ? '?' : `${search}&`}count=0`));
      } catch (error) {
        sum('progress', `· ${error.message}`);
      }
    }
    setTimeout(look, isDone ? LATER : SOON);
  }

  function move(to) {
    if (all === 0) return;
    on = Math.min(all - 1, Math.max(0, to));
    show(on);
    for (const [index, row] of rows) row.classList.toggle('on', index === on);
    rows.get(on)?.querySelector('a').focus({ preventScroll: true });
  }

  function open() {
    const link = rows.get(on)?.querySelector('a');
    if (link?.href) location.assign(link.href);
  }

  // the rows that came with the page are the first ones that are here
  const given = [...body.rows].map(row => [
    Number(row.querySelector('a').pathname.split('/')[2]),
    ...[...row.cells].slice(1).map(cell => cell.textContent),
  ]);
  body.replaceChildren();
  const start = Number(from);
  if (start % BLOCK === 0) blocks.set(start / BLOCK, given);
  else {
    const rest = BLOCK - (start % BLOCK);
    if (given.length > rest) blocks.set(Math.floor(start / BLOCK) + 1, given.slice(rest));
  }

  scroller.addEventListener('scroll', scrolled, { passive: true });
  new ResizeObserver(() => {
    top = Math.min(lastTop(), top);
    resize();
    settle();
    draw();
  }).observe(scroller);
  pane.addEventListener('scroll', () => {
    // a row that Tab brought in sight
    const hidden = pane.scrollTop - (top - Math.floor(top)) * ROW;
    if (Math.abs(hidden) < 2) return;
    top = Math.min(lastTop(), Math.max(0, top + hidden / ROW));
    settle();
    draw();
  });
  body.addEventListener('focusin', event => {
    const { index } = event.target.closest('tr')?.dataset ?? {};
    if (index === undefined || Number(index) === on) return;
    on = Number(index);
    for (const [at, row] of rows) row.classList.toggle('on', at === on);
  });
  body.addEventListener('click', event => {
    const row = event.target.closest('tr');
    if (event.target.closest('a') || row === null || String(getSelection()) !== '') return;
    on = Number(row.dataset.index);
    open();
  });
  resize();
  settle();
  draw();
  setTimeout(look, SOON);
  const page = () => Math.max(1, Math.floor(room()) - 1);
  return {
    j: () => move(on < 0 ? Math.ceil(top) : on + 1),
    k: () => move(on < 0 ? Math.ceil(top) : on - 1),
    ArrowDown: () => move(on < 0 ? Math.ceil(top) : on + 1),
    ArrowUp: () => move(on < 0 ? Math.ceil(top) : on - 1),
    PageDown: () => move((on < 0 ? Math.ceil(top) : on) + page()),
    PageUp: () => move((on < 0 ? Math.ceil(top) : on) - page()),
    Home: () => move(0),
    End: () => move(all - 1),
    Enter: open,
    '/': () => document.querySelector('#q')?.focus(),
    Escape: () => {
      const back = document.querySelector('.chips li:last-child a');
      if (back) location.assign(back.href);
    },
  };
}

/** Rejects with words for a person. */
async function answerOf(url, init = {}) {
  let reply;
  try {
    reply = await fetch(url, { ...init, headers: { accept: 'application/json', ...init.headers } });
  } catch {
    throw new Error('fw view does not answer: it may have been stopped');
  }
  const text = await reply.text();
  let said;
  try {
    said = JSON.parse(text);
  } catch {
    throw new Error(
      reply.status === 403
        ? 'this page is of an earlier fw view: open the address that the terminal has'
        : `an answer of ${reply.status} that is no JSON`,
    );
  }
  if (!reply.ok) throw new Error(said.error ?? `an answer of ${reply.status}`);
  return said;
}

/* ── One row ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

const follow = selector => () => {
  const link = document.querySelector(selector);
  if (link) location.assign(link.href);
};

function startOne() {
  const field = name => judge?.elements.namedItem(name);
  const press = key => () => judge?.querySelector(`button[data-key="${key}"]`)?.click();
  let isSent = false;
  judge?.addEventListener('submit', async event => {
    event.preventDefault();
    if (isSent) return; // a key that is held down is one verdict
    isSent = true;
    const form = new FormData(judge, event.submitter);
    try {
      const { to } = await answerOf(judge.action, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(Object.fromEntries(form)),
      });
      const at = new URL(to, location.href);
      if (at.origin === location.origin) location.assign(at);
    } catch (error) {
      isSent = false;
      const told = document.querySelector('.judged');
      told.textContent = `Not kept: ${error.message}`;
      told.classList.add('problem');
    }
  });
  field('note')?.addEventListener('keydown', event => {
    // Enter would press the first verdict
    if (event.key === 'Enter' || event.key === 'Escape') {
      event.preventDefault();
      event.stopPropagation();
      event.target.blur();
    }
  });
  return {
    n: follow('.place a[rel=next]'),
    p: follow('.place a[rel=prev]'),
    y: press('y'),
    x: press('x'),
    u: press('u'),
    z: press('z'),
    m: () => field('note')?.focus(),
    v: () => field('path')?.focus(),
    '/': follow('.place a.back'),
    Escape: follow('.place a.back'),
  };
}

/** A table that is whole: its rows have the focus one after the other. */
function startList() {
  const links = [...list.querySelectorAll('tbody th a')];
  const move = by => () => {
    const at = links.indexOf(document.activeElement);
    links[at < 0 ? 0 : Math.min(links.length - 1, Math.max(0, at + by))]?.focus();
  };
  const [down, up] = [move(1), move(-1)];
  return {
    j: down,
    k: up,
    ArrowDown: down,
    ArrowUp: up,
    n: follow('.turn a[rel=next]'),
    p: follow('.turn a[rel=prev]'),
  };
}

/* ── Keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────── */

const actions = scroller
  ? startTable()
  : list
    ? startList()
    : document.body.classList.contains('is-item')
      ? startOne()
      : {};

document.addEventListener('keydown', event => {
  if (
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    event.isComposing ||
    (event.repeat && !/^[jk]$|^Arrow|^Page/.test(event.key))
  )
    return;
  const { target, key } = event;
  const isTyping = target.matches('input:not([type=checkbox]), select, textarea');
  if (keys?.open) return; // Esc closes it
  if (isTyping) {
    if (key === 'Escape') target.blur();
    // a judge who chose a value goes on judging
    const isVerdict = target.matches('select') && /^[yxu]$/.test(key);
    if (target.matches('select') && key === 'Enter') {
      event.preventDefault();
      target.blur();
    }
    if (!isVerdict) return;
  }
  if (key === '?') return keys?.showModal();
  // what has the focus has its own Enter; arrows scroll what they scroll where it is not the table
  if (key === 'Enter' && target.closest('a, button, summary')) return;
  if (/^Arrow|^Page|^Home|^End/.test(key) && target !== document.body && !target.closest('.scroller')) return;
  if (event.shiftKey && key.length > 1) return;
  const action = actions[key];
  if (action === undefined) return;
  event.preventDefault();
  action();
});
