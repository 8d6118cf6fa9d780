'use strict';
// Turns the pages. Without this script all slides are below each other.
const slides = [...document.querySelectorAll('section')];
const clamp = (n) => Math.max(0, Math.min(slides.length - 1, n));
const named = () => clamp((parseInt(location.hash.slice(1), 10) || 1) - 1);
let at = named();

function show(n, focus) {
  at = clamp(n);
  slides.forEach((s, i) => s.classList.toggle('shown', i === at));
  document.getElementById('at').textContent = `${at + 1} of ${slides.length}`;
  history.replaceState(null, '', '#' + (at + 1));
  scrollTo(0, 0);
  if (focus) slides[at].focus();
}

document.body.classList.add('turning');
document.getElementById('back').addEventListener('click', () => show(at - 1));
document.getElementById('on').addEventListener('click', () => show(at + 1));
addEventListener('hashchange', () => show(named()));
addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.altKey || e.metaKey) return;
  const by = { ArrowRight: 1, PageDown: 1, ArrowLeft: -1, PageUp: -1, Home: -slides.length, End: slides.length }[e.key];
  if (by) {
    e.preventDefault();
    show(at + by, true);
  }
});
show(at);
