'use strict';
// Filter expressions as Wireshark's. A served capture is filtered by the server, all of it; a page
// that is one file has the same filter in its WebAssembly.

const expression = {
  places: null, // of the packets of a page that is one file that are left; null: all
  loaded: false, // whether the WebAssembly has the packets
};

/** showExpression makes the bar. */
function showExpression() {
  refill(byId('expression'),
    el('label', { class: 'grow' }, 'Expression ', el('input', { id: 'expression-text', type: 'search', autocomplete: 'off', spellcheck: false, 'aria-keyshortcuts': 'f', 'aria-describedby': 'expression-wrong', placeholder: 'infiniband.bth.opcode == RC_ACKNOWLEDGE && ip.src == 10.0.0.1', value: given.filter || '' })),
    el('button', { type: 'submit' }, 'Apply'),
    el('span', { id: 'expression-wrong', class: 'wrongtext', role: 'alert' }));
  byId('expression').addEventListener('submit', (e) => {
    e.preventDefault();
    attempt(applyExpression);
  });
  byId('expression-text').addEventListener('search', () => attempt(applyExpression)); // its cross
}

/** wantedExpression is what was asked for. */
const wantedExpression = () => byId('expression-text').value.trim();

/** applyExpression filters the capture. What is wrong with the expression is said beside it. */
async function applyExpression() {
  const wrong = byId('expression-wrong');
  wrong.textContent = '';
  try {
    if (given.static) await filterHere(wantedExpression());
    else await openFile(1);
  } catch (e) {
    wrong.textContent = String(e.message || e).replace(/^.*?filter: /s, '');
    refilter(); // says again what is shown
    return;
  }
  byId('ladder').focus();
}

/** filterHere has the WebAssembly hold the packets of this file against an expression. */
async function filterHere(text) {
  expression.places = null;
  if (text) {
    await startWorld();
    const answer = JSON.parse(globalThis.roceFilter(text, expression.loaded ? '' : JSON.stringify(app.play.packets)));
    if (answer.error) throw new Error(answer.error);
    expression.loaded = true;
    expression.places = new Set(answer.places);
  }
  refilter();
}

/** leftByExpression says whether a packet, by its place, is left. */
const leftByExpression = (i) => !expression.places || app.mode !== 'file' || expression.places.has(i);
