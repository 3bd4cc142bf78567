// What screen.test.ts asks of the page, in the page: plain JavaScript, since the types of a browser are not those of fw.
(() => {
  for (const details of document.querySelectorAll('details')) details.open = true;
  const wrong = [];
  const figures = [...document.querySelectorAll('figure')];
  for (const figure of figures) {
    const name = figure.querySelector('figcaption')?.textContent ?? 'no title';
    const drawn = [...figure.querySelectorAll('svg')].filter(svg => svg.getBoundingClientRect().width > 0);
    if (figure.querySelector('details table') === null) wrong.push(`${name}: no table`);
    if (drawn.length > 1) wrong.push(`${name}: ${drawn.length} pictures`);
    for (const svg of drawn) {
      const box = svg.getBoundingClientRect();
      if (svg.querySelector('title') === null) wrong.push(`${name}: no words for who cannot see it`);
      for (const text of svg.querySelectorAll('text')) {
        const { left, right, top, bottom } = text.getBoundingClientRect();
        if (left < box.left - 1 || right > box.right + 1 || top < box.top - 1 || bottom > box.bottom + 1)
          wrong.push(`${name}: "${text.textContent}" leaves its picture`);
      }
    }
  }
  const root = document.documentElement;
  const ground = getComputedStyle(document.body).backgroundColor;
  return {
    wrong,
    figures: figures.length,
    over: root.scrollWidth - root.clientWidth,
    ground,
    scripts: document.scripts.length,
  };
})();
