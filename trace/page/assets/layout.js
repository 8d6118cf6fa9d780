'use strict';
// From a play to rows. Stages: the packets that the filter leaves → points in the order of time (a
// packet leaves, a packet arrives, an application or an engine does something) → a row for each.
// In a capture a packet has one time, and so one row.

/** problem says whether a packet is worth a second look. */
const problem = (p) => Boolean(p.wrong) || p.kind === 'nak' || p.fate === 'lost' || p.fate === 'corrupt';

/** passes says whether the filter leaves a packet. */
function passes(p, filter) {
  if (filter.host !== '' && p.from !== Number(filter.host) && p.to !== Number(filter.host)) return false;
  if (filter.qp !== '' && p.qpn !== Number(filter.qp)) return false;
  if (filter.op !== '' && p.op !== filter.op) return false;
  if (filter.wrong && !problem(p)) return false;
  if (!filter.text) return true;
  const all = [p.n, p.label, p.line, p.op, p.kind, p.fate, p.wrong, p.remark, 'qp ' + p.qpn, '0x' + hex(p.qpn || 0, 6)].join(' ').toLowerCase();
  return filter.text.toLowerCase().split(/\s+/).every((word) => all.includes(word));
}

const filterIsEmpty = (f) => f.host === '' && f.qp === '' && f.op === '' && !f.wrong && !f.text;

// Of the same time: what arrives comes before what it leads to, and that before what leaves.
const ORDER = { arrived: 0, again: 0, entry: 1, sent: 2 };

// SET_UP are calls, and what comes of them, before there is anything to see.
const SET_UP = /^ibv_(alloc|attach|create|modify|reg)_|^QP 0x[0-9a-f]+ is in /;

/** beginning is the place of the first entry that is no set-up: the first request that is posted. */
function beginning(play) {
  const entries = play.entries || [];
  const first = entries.findIndex((e) => /^ibv_post/.test(e.text));
  return first < 0 || !play.moments ? 0 : first;
}

/** arrange makes the rows of a play. */
function arrange(play, filter) {
  const all = play.packets || [];
  const packets = all.filter((p) => passes(p, filter));
  const points = [];
  for (const p of packets) {
    points.push({ time: p.sent, what: 'sent', packet: p });
    if (p.arrived > p.sent) points.push({ time: p.arrived, what: 'arrived', packet: p });
    if (p.again > p.sent) points.push({ time: p.again, what: 'again', packet: p });
  }
  const bare = filterIsEmpty(filter);
  const begun = beginning(play);
  const first = begun ? play.entries[0].time : 0;
  (play.entries || []).forEach((e, i) => {
    if (!filter.setup && !e.error && (i < begun || (begun && e.time === first && SET_UP.test(e.text)))) return;
    if (e.kind === 'sent' || e.kind === 'received') return; // the arrows say so
    if (bare || (filter.host !== '' && e.host === Number(filter.host) && !filter.text && !filter.wrong)) points.push({ time: e.time, what: 'entry', entry: e });
  });
  points.forEach((x, i) => {
    x.order = i;
  });
  points.sort((a, b) => a.time - b.time || ORDER[a.what] - ORDER[b.what] || a.order - b.order);
  return place(points, all.length);
}

/** place gives each point its row. What a packet leads to shares the row in which it arrives, if its words are outside of the lines. */
function place(points, total) {
  const arrows = new Map();
  const entries = [];
  const times = []; // of the rows
  let before = null;
  for (const x of points) {
    const shared = !ladder.inside && x.what === 'entry' && before && (before.what === 'arrived' || before.what === 'again') && before.time === x.time && before.packet.to === x.entry.host;
    if (!shared) times.push(x.time);
    before = x;
    const row = times.length - 1;
    if (x.what === 'entry') entries.push({ row, entry: x.entry });
    else if (x.what === 'sent') arrows.set(x.packet, { packet: x.packet, row, end: row });
    else if (x.what === 'arrived') arrows.get(x.packet).end = row;
    else arrows.get(x.packet).again = row;
  }
  const list = [...arrows.values()];
  let longest = 0;
  for (const a of list) longest = Math.max(longest, a.end - a.row, (a.again || 0) - a.row);
  return { arrows: list, entries, times, longest, total, inside: ladder.inside };
}

/** stopsOf are the times at which something happens: what the slider stops at. */
function stopsOf(play) {
  const all = new Set();
  for (const p of play.packets || []) {
    all.add(p.sent);
    for (const t of [p.arrived, p.again]) if (t > p.sent) all.add(t);
  }
  for (const x of [...(play.entries || []), ...(play.moments || [])]) all.add(x.time);
  return [...all].sort((a, b) => a - b);
}

/** firstFrom finds the first of a sorted list that is not before a row. */
function firstFrom(list, row) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle].row < row) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** lastStop finds the last time of a sorted list that is not after a time; -1 if all are. */
function lastStop(times, time) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
