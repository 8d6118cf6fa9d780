'use strict';
// The ladder: only the rows that are in sight are in the page, so that ten thousand packets are as
// quick as ten. The selected packet is the listbox's active descendant.

const LABELS_FROM = 15; // pixels of a row that has text

/** usualHeight of a row; one whose text has several lines is higher, see measureRows. */
const usualHeight = () => (!app.play.moments ? 34 : app.play.packets.length > 24 ? 22 : 28);

const ladder = {
  rows: { arrows: [], entries: [], times: [], longest: 0, total: 0, inside: false }, // see arrange
  height: 34, // of a row
  hosts: [],
  left: 0, // of the first line, in pixels
  gap: 0, // between two lines
  width: 0,
  stamp: 80, // room for the times
  inside: false, // what hosts do is written between the lines
  tops: null, // where each row begins, and the last one ends; null: all are equally high
};

const BELOW = 13; // pixels of a row below its line, where its text is above

const ladderRow = (i) => (ladder.tops ? ladder.tops[i + 1] - BELOW : (i + 0.5) * ladder.height + 8);
const rowEnd = (i) => (ladder.tops ? ladder.tops[i + 1] : ladderRow(i) + ladder.height / 2);
const rowAt = (y) => (ladder.tops ? lastStop(ladder.tops, y) : Math.floor((y - 8) / ladder.height));
const ladderTall = () => (ladder.tops ? ladder.tops[ladder.tops.length - 1] + 16 : ladder.rows.times.length * ladder.height + 30);
const hostAt = (i) => ladder.left + i * ladder.gap;

/** measureLadder finds the places of the lines in the width that there is. */
function measureLadder() {
  const box = byId('ladder');
  const room = box.clientWidth;
  const many = Math.max(1, ladder.hosts.length - 1);
  const told = (app.play.entries || []).length > 0;
  const narrow = room < 560;
  ladder.inside = narrow || many > 1 || (told && room < 760);
  ladder.stamp = 14 + 6.7 * timeText(app.end, Math.max(app.end, 1)).length;
  ladder.left = narrow ? Math.max(74, ladder.stamp + 4) : !told ? 128 : ladder.inside ? ladder.stamp + 20 : Math.max(ladder.stamp + 110, room * 0.31);
  const right = narrow || (told && ladder.inside) ? 16 : told ? Math.max(140, room * 0.24) : 60;
  ladder.gap = ladder.hosts.length < 2 ? (narrow ? 0 : 120) : Math.max(many > 1 ? 150 : narrow ? 120 : 210, (room - ladder.left - right) / many);
  if (!told) ladder.gap = Math.min(ladder.gap, 620);
  ladder.width = Math.max(room, ladder.left + (ladder.hosts.length > 1 ? many : 0) * ladder.gap + right);
  measureRows();
}

/** entryRoom is where the words of a host have room: beside its line, outside of all lines or to the next one. */
function entryRoom(host) {
  const x = hostAt(host);
  const last = host === ladder.hosts.length - 1;
  if (ladder.hosts.length < 2) return { before: false, room: ladder.width - x - 14 };
  if (!ladder.inside && host === 0) return { before: true, room: ladder.left - ladder.stamp - 12 };
  if (!ladder.inside && last) return { before: false, room: ladder.width - x - 14 };
  return { before: last, room: ladder.gap - 22 };
}

const labelSize = () => Math.min(13, Math.max(10, ladder.height * 0.44));
const entryLines = (e) => wrap(e.text.replace(/^the device |IBV_WC_/g, ''), entryRoom(e.host).room, 11);
const labelLines = (p) => wrap(`${p.n}  ${labelOf(p)}${p.arrived === 0 && p.fate !== 'lost' ? ', ' + p.fate : ''}`, labelRoom(p), labelSize());
const BADGE = 84; // pixels of a badge, which stands behind its label unless the packet is lost
const labelRoom = (p) => (p.change && p.fate !== 'lost' ? -BADGE : 0) + (p.to === p.from ? ladder.width - hostAt(p.from) - 40 : Math.abs(hostAt(target(p)) - hostAt(p.from)) - 24);

/** measureRows makes rows as high as what is written in them: no text is cut, and none is above another. */
function measureRows() {
  const { times, entries, arrows } = ladder.rows;
  ladder.tops = null;
  if (!app.play.moments || ladder.height < LABELS_FROM) return;
  const tall = times.map(() => ladder.height);
  const grow = (row, need) => {
    tall[row] = Math.max(tall[row], need + BELOW);
  };
  for (const { row, entry } of entries) grow(row, 12.5 * entryLines(entry).length - 2);
  for (const { row, packet } of arrows) grow(row, (labelSize() + 2) * labelLines(packet).length + 5 + (packet.wrong ? 12.5 * wrap('⚠ ' + packet.wrong, labelRoom(packet), 11).length : 0));
  ladder.tops = [4];
  tall.forEach((h, i) => ladder.tops.push(ladder.tops[i] + h));
}

/** drawHeads names the lines. */
function drawHeads() {
  const scroll = byId('ladder').scrollLeft;
  byId('heads').replaceChildren(...ladder.hosts.map((h, i) => {
    const head = el('div', {}, h.name, h.addr ? el('small', {}, h.addr) : false);
    return head;
  }));
  [...byId('heads').children].forEach((head, i) => { // the whole of it is in sight if its line is
    head.style.maxWidth = Math.max(ladder.gap, 120) + 'px';
    const half = head.offsetWidth / 2;
    const x = hostAt(i) - scroll;
    head.style.left = Math.max(Math.min(x, Math.max(byId('heads').clientWidth - half - 2, x - half)), half) + 'px';
  });
}

/** drawLadder draws what is in sight. */
function drawLadder() {
  const box = byId('ladder');
  measureLadder();
  if (ladder.rows.inside !== ladder.inside) {
    ladder.rows = arrange(app.play, app.filter);
    measureRows();
  }
  const rows = ladder.rows;
  drawHeads();
  const tall = ladderTall();
  byId('extent').style.height = tall + 'px';
  byId('extent').style.width = ladder.width + 'px';
  box.setAttribute('role', rows.arrows.length ? 'listbox' : 'group'); // a list has something to choose
  if (app.failed || (rows.arrows.length === 0 && rows.entries.length === 0)) {
    const why = rows.total ? 'The filter leaves none of ' + plural(rows.total, 'packet') + '.' : 'There is no packet yet.';
    byId('drawing').replaceChildren(el('div', { class: app.failed ? 'empty wrongtext' : 'empty' }, app.failed || why));
    box.removeAttribute('aria-activedescendant');
    return;
  }
  const top = Math.max(0, box.scrollTop - 60);
  const bottom = Math.min(tall, box.scrollTop + box.clientHeight + 60);
  const first = rowAt(top) - 1;
  const last = rowAt(bottom) + 1;
  const picture = svg('svg', { width: ladder.width, height: bottom - top, viewBox: `0 ${top} ${ladder.width} ${bottom - top}`, role: 'presentation' });
  ladder.hosts.forEach((_, i) => picture.append(svg('line', { class: 'rail', x1: hostAt(i), x2: hostAt(i), y1: top, y2: bottom })));
  drawStamps(picture, Math.max(0, first), Math.min(last, rows.times.length - 1));
  for (let i = firstFrom(rows.arrows, first - rows.longest); i < rows.arrows.length && rows.arrows[i].row <= last; i++) {
    if (rows.arrows[i].end >= first - 2) picture.append(drawArrow(rows.arrows[i], i));
  }
  for (let i = firstFrom(rows.entries, first); i < rows.entries.length && rows.entries[i].row <= last; i++) picture.append(drawEntry(rows.entries[i]));
  drawNow(picture);
  byId('drawing').style.top = top + 'px';
  byId('drawing').replaceChildren(picture);
  const at = byId('packet-' + app.selected);
  if (at) box.setAttribute('aria-activedescendant', at.id);
  else box.removeAttribute('aria-activedescendant');
}

/** drawStamps writes the times at the left, where they change. */
function drawStamps(picture, first, last) {
  const rows = ladder.rows;
  const span = rows.times[rows.times.length - 1] || 0;
  const every = Math.max(1, Math.ceil(14 / ladder.height));
  for (let i = first; i <= last; i++) {
    if (i % every || (i > 0 && rows.times[i] === rows.times[i - 1])) continue;
    picture.append(svg('text', { class: 'stamp', x: 6, y: ladderRow(i) + 4 }, timeText(rows.times[i], span)));
  }
}

/** drawNow shows the slider's time, if it is not the end. */
function drawNow(picture) {
  const row = lastStop(ladder.rows.times, app.now);
  if (app.now >= app.end || row < 0) return;
  const y = rowEnd(row);
  picture.append(svg('line', { class: 'now', x1: 0, x2: ladder.width, y1: y, y2: y }));
}

/** clip shortens a text to a width in pixels. */
function clip(text, room, size) {
  const most = Math.max(3, Math.floor(room / (size * 0.605)));
  return text.length > most ? text.slice(0, most - 1) + '…' : text;
}

/** wrap breaks a text into lines. */
function wrap(text, room, size) {
  const most = Math.max(3, Math.floor(room / (size * 0.605)));
  const out = [];
  while (text.length > most) {
    let cut = Math.max(text.lastIndexOf(' ', most), text.lastIndexOf('_', most - 1) + 1);
    if (cut < most / 3) cut = most;
    out.push(text.slice(0, cut));
    text = text.slice(cut).trim();
  }
  return [...out, text];
}

/** drawEntry writes what a program or a device did, outside of the lines where there is room. */
function drawEntry({ row, entry }) {
  const y = ladderRow(row);
  const x = hostAt(entry.host);
  const node = svg('g', { class: ['entry', entry.kind.replace(' ', '-'), failedEntry(entry) ? 'bad' : '', entry.time > app.now ? 'future' : ''].join(' ') }, svg('title', {}, entry.text), svg('circle', { cx: x, cy: y, r: 3.2 }));
  if (ladder.height < LABELS_FROM) return node;
  const { before, room } = entryRoom(entry.host);
  const lines = ladder.tops ? entryLines(entry) : [clip(entry.text, room, 11)];
  lines.forEach((line, i) => node.append(svg('text', { x: before ? x - 9 : x + 9, y: y + 4 - 12.5 * (lines.length - 1 - i), 'text-anchor': before ? 'end' : 'start' }, line)));
  return node;
}

/** failedEntry says whether an entry is bad news. */
const failedEntry = (e) => Boolean(e.error) || ['dropped', 'retry', 'wait', 'give up'].includes(e.kind) || (e.kind === 'completion' && !e.text.includes('SUCCESS'));

/** target is the line that an arrow goes to; of a packet to nobody the next one. */
const target = (p) => (p.to >= 0 ? p.to : p.from + (p.from > 0 ? -1 : 1));

/** drawArrow draws a packet. */
function drawArrow(arrow, index) {
  const p = arrow.packet;
  const lost = p.fate === 'lost';
  const x1 = hostAt(p.from);
  let x2 = hostAt(target(p));
  const y1 = ladderRow(arrow.row);
  let y2 = ladderRow(arrow.end);
  if (lost) {
    x2 = x1 + (x2 - x1) * 0.62;
    if (ladder.tops) y2 = y1 + 5; // its row is its own: it covers nothing that comes later
  }
  const chosen = p.n === app.selected;
  const classes = ['packet', p.kind, p.fate, chosen ? 'selected' : '', p.sent > app.now || later(p) ? 'future' : '', p.wrong ? 'bad' : '', inStep(p) ? 'told' : ''];
  const said = `${p.n}: ${labelOf(p)}, ${hostName(p.from)} to ${hostName(p.to)}${p.fate && p.fate !== 'delivered' ? ', ' + p.fate : ''}${p.wrong ? ', ' + p.wrong : ''}`;
  const node = svg('g', { class: classes.join(' '), id: 'packet-' + p.n, role: 'option', 'aria-selected': chosen ? 'true' : 'false', 'aria-label': said,
    'aria-posinset': index + 1, 'aria-setsize': ladder.rows.arrows.length, 'data-n': p.n });
  if (x1 === x2) drawLoop(node, x1, y1);
  else drawShaft(node, p, x1, y1, x2, y2, lost);
  if (arrow.again) node.append(svg('line', { class: 'shaft copy', x1: (x1 + x2) / 2, y1: (y1 + y2) / 2, x2, y2: ladderRow(arrow.again) }));
  if (ladder.height >= LABELS_FROM) {
    labelArrow(node, p, x1, y1, x2, y2);
    node.setAttribute('aria-label', `${node.textContent}, ${said}`); // what is seen is in what is said
  }
  return node;
}

function drawLoop(node, x, y) {
  const path = `M${x} ${y - 5} h26 v10 h-26`;
  node.append(svg('path', { class: 'hit', d: path }), svg('path', { class: 'shaft', d: path }), svg('path', { class: 'tip', d: `M${x} ${y + 5} l7 -4 v8 z` }));
}

/** drawShaft draws the line as far as the packet has come at the slider's time. */
function drawShaft(node, p, x1, y1, x2, y2, lost) {
  let [ex, ey] = [x2, y2];
  let flying = false;
  if (p.arrived > p.sent && app.now >= p.sent && app.now < p.arrived) {
    const part = Math.max(0.08, (app.now - p.sent) / (p.arrived - p.sent));
    [ex, ey, flying] = [x1 + (x2 - x1) * part, y1 + (y2 - y1) * part, true];
  }
  node.append(svg('line', { class: 'hit', x1, y1, x2, y2 }), svg('line', { class: 'shaft', x1, y1, x2: ex, y2: ey }));
  if (lost && !flying) {
    node.append(svg('path', { class: 'cross', d: `M${x2 - 6} ${y2 - 6} l12 12 m0 -12 l-12 12` }));
    return;
  }
  const angle = (Math.atan2(y2 - y1, x2 - x1) * 180) / Math.PI;
  const size = ladder.height < 8 ? 4 : 9;
  node.append(svg('path', { class: 'tip', d: `M0 0 l${-size} ${-size * 0.45} v${size * 0.9} z`, transform: `translate(${ex} ${ey}) rotate(${angle})` }));
}

/** labelArrow writes along the arrow, and under it what is wrong. */
function labelArrow(node, p, x1, y1, x2, y2) {
  const size = labelSize();
  if (ladder.tops && x1 !== x2) {
    labelTail(node, p, x1, y1, x2, y2);
    return;
  }
  if (x1 === x2) {
    node.append(svg('text', { class: 'label', x: x1 + 34, y: y1 + 4, 'font-size': size }, clip(labelOf(p), ladder.width - x1 - 40, size)));
    return;
  }
  const span = Math.max(Math.abs(hostAt(p.to) - x1), Math.abs(x2 - x1));
  let angle = (Math.atan2(y2 - y1, x2 - x1) * 180) / Math.PI;
  if (x2 < x1) angle += 180;
  const [mx, my] = [(x1 + x2) / 2, (y1 + y2) / 2];
  const text = svg('text', { class: 'label', 'text-anchor': 'middle', x: 0, y: -5.5, 'font-size': size, transform: `translate(${mx} ${my}) rotate(${angle})` });
  text.append(clip(`${p.n}  ${labelOf(p)}`, Math.min(span, Math.abs(x2 - x1) + 40) - 24, size));
  node.append(text);
  if (p.change) node.append(p.fate === 'lost' ? badgeOf(p, x2, y2, x2 > x1) : badgeOf(p, x1, y1 + 11, x2 > x1));
  if (p.wrong && ladder.height >= 24) {
    const under = svg('text', { class: 'why', 'text-anchor': 'middle', x: 0, y: 12, transform: `translate(${mx} ${my}) rotate(${angle})` }, clip('⚠ ' + p.wrong, span - 34, 11));
    under.append(svg('title', {}, p.wrong));
    node.append(under);
  }
}

/** labelTail writes above where an arrow begins: that row has no other arrow's words. */
function labelTail(node, p, x1, y1, x2, y2) {
  const size = labelSize();
  const right = x2 > x1;
  const lines = labelLines(p).map((text) => ({ text, class: 'label', size }));
  if (p.wrong) lines.unshift(...wrap('⚠ ' + p.wrong, labelRoom(p), 11).map((text) => ({ text, class: 'why', size: 11 })));
  let y = y1 - 5 - lines.slice(1).reduce((sum, line) => sum + line.size + 2, 0);
  lines.forEach((line, i) => {
    if (i) y += line.size + 2;
    node.append(svg('text', { class: line.class, x: right ? x1 + 10 : x1 - 10, y, 'font-size': line.size, 'text-anchor': right ? 'start' : 'end' }, line.text + ' '));
  });
  if (!p.change) return;
  const end = 12 + lines[lines.length - 1].text.length * size * 0.605;
  node.append(p.fate === 'lost' ? badgeOf(p, x2, y2, right) : badgeOf(p, right ? x1 + end : x1 - end, y1 - 9, right));
}

/** badgeOf says what the student did to the packet. */
function badgeOf(p, x, y, right) {
  const text = String(p.change).toUpperCase().slice(0, 9);
  const wide = text.length * 6.6 + 8;
  const at = right ? x + 8 : x - 8 - wide;
  return svg('g', { class: 'badge' }, svg('rect', { x: at, y: y - 8, width: wide, height: 15, rx: 4 }), svg('text', { x: at + wide / 2, y: y + 3.5, 'text-anchor': 'middle' }, text));
}

/** labelOf is what stands on an arrow. */
const labelOf = (p) => (app.lesson ? `${p.label} psn ${p.psn}${p.length ? ` ${p.length} B` : ''}` : p.label);

const hostName = (i) => (ladder.hosts[i] ? ladder.hosts[i].name : '?');

/** reveal scrolls a row into sight. */
function reveal(row) {
  const box = byId('ladder');
  const y = ladderRow(row);
  if (y < box.scrollTop + 40) box.scrollTop = Math.max(0, y - box.clientHeight / 3);
  else if (y > box.scrollTop + box.clientHeight - 50) box.scrollTop = y - (box.clientHeight * 2) / 3;
}

/** drawOverview paints all rows into a strip: problems stay visible in ten thousand packets. */
function drawOverview() {
  const canvas = byId('overview');
  const { clientWidth: w, clientHeight: h } = canvas;
  if (!w || !h) return;
  canvas.width = w;
  canvas.height = h;
  const paint = canvas.getContext('2d');
  const colours = getComputedStyle(document.documentElement);
  const colour = (name) => colours.getPropertyValue('--' + name).trim();
  const scale = h / Math.max(1, ladderTall());
  const thick = Math.max(1, ladder.height * scale * 0.8);
  for (const bad of [false, true]) {
    for (const a of ladder.rows.arrows) {
      if (problem(a.packet) !== bad) continue;
      paint.globalAlpha = bad ? 1 : 0.35;
      paint.fillStyle = colour(bad ? 'wrong' : a.packet.kind === 'request' ? 'request' : 'ack');
      paint.fillRect(bad ? 1 : 4, ladderRow(a.row) * scale, bad ? w - 1 : w - 7, Math.min(thick, 6));
    }
  }
  const box = byId('ladder');
  const tall = box.scrollHeight || 1;
  paint.globalAlpha = 0.18;
  paint.fillStyle = colour('text');
  paint.fillRect(0, (box.scrollTop / tall) * h, w, Math.max(4, (box.clientHeight / tall) * h));
}
