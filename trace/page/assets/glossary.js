'use strict';
// Terms: a word in a text that the glossary explains shows its explanation when it is pointed at or
// has the focus; those that a step brings are explained below its text. The words are Go's (package
// trace/glossary).

/** glossary is {name, means, lesson} of all terms, once the world has started. */
let glossary = [];

const meaning = (name) => glossary.find((t) => t.name === name);

/** termOf is a word that explains itself. */
function termOf(text, name, extra) {
  const term = el('button', { type: 'button', class: 'term' + (extra || ''), 'data-term': name, click: () => openGlossary(name) }, text);
  const show = () => showTip(term, name);
  term.addEventListener('pointerenter', show);
  term.addEventListener('focus', show);
  for (const end of ['pointerleave', 'blur']) term.addEventListener(end, hideTip);
  return term;
}

/** showTip explains a term beside it. */
function showTip(term, name) {
  const found = meaning(name);
  if (!found) return;
  const tip = byId('tip');
  refill(tip, el('b', {}, name), ' ', found.means);
  tip.hidden = false;
  const at = term.getBoundingClientRect();
  const below = at.bottom + tip.offsetHeight + 8 < innerHeight;
  tip.style.left = Math.max(6, Math.min(at.left, innerWidth - tip.offsetWidth - 6)) + 'px';
  tip.style.top = (below ? at.bottom + 5 : Math.max(4, at.top - tip.offsetHeight - 5)) + 'px';
  term.setAttribute('aria-describedby', 'tip');
}

function hideTip() {
  byId('tip').hidden = true;
  document.querySelectorAll('[aria-describedby=tip]').forEach((x) => x.removeAttribute('aria-describedby'));
}

/** newTerms are those that a step brings. */
function newTerms(names) {
  const list = (names || []).map(meaning).filter(Boolean);
  return list.length ? el('dl', { class: 'terms', 'aria-label': 'New here' }, list.map((t) => [el('dt', {}, t.name), el('dd', {}, t.means)])) : '';
}

/** openGlossary shows all terms, and goes to one. */
function openGlossary(name) {
  hideTip();
  if (!glossary.length) return;
  const list = [...glossary].sort((a, b) => a.name.localeCompare(b.name, 'en', { sensitivity: 'base' }));
  openDialog('Glossary', el('dl', { class: 'glossary', tabindex: 0, 'aria-label': 'Terms' }, list.map((t) => [el('dt', { 'data-of': t.name }, t.name), el('dd', {}, t.means, ' ', t.lesson ? el('button', { type: 'button', class: 'link', click: () => {
    byId('help').close();
    attempt(() => openLessons(t.lesson));
  } }, 'lesson ' + t.lesson) : '')])));
  const at = name && [...byId('help').querySelectorAll('[data-of]')].find((x) => x.dataset.of === name);
  if (!at) return;
  at.classList.add('on');
  at.scrollIntoView({ block: 'center' });
}
