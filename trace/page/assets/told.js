'use strict';
// What a student's changes have made of the play, in sentences that the world tells (package told),
// and what they have made untrue of the lesson's text.

/** told stands above the lesson's text while something is changed. */
function told() {
  if (!app.changes.length) return '';
  const n = app.untrue.length;
  return el('div', { class: 'verdict told', role: 'status' },
    el('b', {}, app.changes.map((c) => `${c.packet}: ${c.action}`).join(', ')),
    el('ol', {}, app.told.map((s) => el('li', { class: s.kind }, withPackets(s), s.link ? [' ', ruleLink(s)] : ''))),
    n ? el('p', { class: 'remark' }, `${plural(n, 'sentence')} of the lesson ${n === 1 ? 'is' : 'are'} not true now, and struck through.`) : '');
}

/** ruleLink leads to the section that has the rule. */
const ruleLink = (s) => el('a', { href: s.link, target: '_blank', rel: 'noreferrer', title: `The rule: ${s.title}` }, `§ ${s.section}`);

/** withPackets is a sentence in which the packets that it names can be selected. */
function withPackets(s) {
  const parts = s.text.split(/([Pp]ackets? (?:\d+(?:, | and | to )?)+)/);
  return parts.map((part, i) => (i % 2 ? part.split(/(\d+)/).map((word, k) => (k % 2 && (s.packets || []).includes(Number(word)) ? pointTo(Number(word), word) : word)) : part));
}

/** pointTo selects a packet. */
const pointTo = (n, text) => el('button', { type: 'button', class: 'point', click: () => {
  select(n);
  openPacket();
} }, text);

/** struck shows a piece of a sentence that is not true any more. */
const struck = (x, node) => (x.untrue ? el('s', { class: 'untrue', title: 'Not true now: ' + x.untrue }, node) : node);
