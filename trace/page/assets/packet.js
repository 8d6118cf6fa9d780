'use strict';
// One packet: its line, its bytes and its fields. A field under the pointer, or with the focus,
// marks its bytes, and a byte marks its fields.

/** showPacket shows a packet that has its details. */
function showPacket(p) {
  const box = byId('detail');
  byId('main').classList.toggle('opened', Boolean(p)); // a lesson has room for it then
  if (!p) {
    box.replaceChildren(el('h2', {}, 'A packet'), el('p', { class: 'remark' }, 'Click an arrow, or choose one with ', el('kbd', {}, '↑'), ' ', el('kbd', {}, '↓'), ' and press ', el('kbd', {}, 'Enter'), ', to see its bytes and what each of them means.'));
    return;
  }
  refill(box,
    app.lesson ? el('button', { type: 'button', id: 'detail-close', 'aria-label': 'Close the packet', click: () => {
      select(0);
      showPacket(null);
      byId('ladder').focus();
    } }, '×') : '',
    el('h2', { id: 'detail-title' }, `Packet ${p.n}${p.part ? '.' + p.part : ''}`),
    el('div', {}, `${hostName(p.from)} → ${hostName(p.to)}, at ${timeText(p.sent, Math.max(app.end, 1))}${fateText(p)}`),
    p.wrong ? el('p', { class: 'wrongtext' }, '⚠ ' + p.wrong) : '',
    (app.play.notes || []).filter((n) => n.packet === p.n).map((n) => el('p', { class: 'note' }, n.text)),
    p.remark ? el('p', { class: 'remark' }, p.remark) : '',
    el('p', { class: 'mono line' }, p.line),
    bytesView(p), fieldsView(p));
  linkBytes(box, p.fields || []);
}

function fateText(p) {
  const change = p.change ? ` (${p.change})` : '';
  switch (p.fate) {
    case 'lost': return ', lost on the way' + change;
    case 'duplicate': return ', a second copy' + change;
    case 'corrupt': return ', damaged' + change;
    case 'marked': return ', marked by a switch (congestion)' + change;
  }
  return p.arrived > p.sent ? `, arrives at ${timeText(p.arrived, Math.max(app.end, 1))}${change}` : change;
}

/** bytesView shows rows of bytes with their letters, the end of a long packet after a gap. */
function bytesView(p) {
  const view = el('div', { class: 'hex', role: 'group', tabindex: 0, 'aria-label': 'Bytes' });
  const wide = app.lesson || window.innerWidth < 560 ? 8 : 16;
  const head = bytesOf(p.bytes);
  const tail = bytesOf(p.tail);
  appendRows(view, head, 0, wide);
  const length = p.whole || head.length;
  if (tail.length) {
    view.append(el('span', { class: 'more' }, `… ${plural(length - head.length - tail.length, 'byte')} more …`));
    appendRows(view, tail, length - tail.length, wide);
  } else if (length > head.length) view.append(el('span', { class: 'more' }, `… ${plural(length - head.length, 'byte')} more`));
  return view;
}

/** bitsText: "bit 3", "bits 0-3". */
const bitsText = (bits) => {
  const [first, last] = bits.split('-');
  return first === last ? ` bit ${first}` : ` bits ${bits}`;
};

/** partial says whether a field has not all bits of its bytes. */
const partial = (f) => f.bits && f.bits !== `0-${8 * f.length - 1}`;

function appendRows(view, bytes, from, wide) {
  for (let i = 0; i < bytes.length; i += wide) {
    const row = bytes.slice(i, i + wide);
    view.append(el('span', { class: 'at' }, hex(from + i, 4)),
      el('span', { class: 'row' }, row.map((b, k) => el('span', { class: 'b', 'data-at': from + i + k }, hex(b, 2)))),
      el('span', { class: 'text' }, row.map(letter).join('')));
  }
}

/** fieldsView is a table: a header's name, then its fields. */
function fieldsView(p) {
  const body = el('tbody');
  let layer = '';
  (p.fields || []).forEach((f, i) => {
    if (f.layer !== layer) {
      layer = f.layer;
      body.append(el('tr', {}, el('th', { colspan: 3, scope: 'rowgroup' }, layer)));
    }
    const bits = partial(f) ? el('span', { class: 'bits' }, bitsText(f.bits)) : '';
    body.append(el('tr', { class: 'field', tabindex: i === 0 ? 0 : -1, 'data-field': i }, el('td', { class: 'name' }, f.name, bits), el('td', { class: 'value' }, f.value), el('td', { class: 'means' }, f.means || '')));
  });
  return el('table', { class: 'fields', 'aria-label': 'Fields of the packet' }, body);
}

/** linkBytes marks the bytes of a field and the fields of a byte. */
function linkBytes(box, fields) {
  const byte = (at) => box.querySelector(`.b[data-at="${at}"]`);
  const rows = [...box.querySelectorAll('tr.field')];
  const clear = () => box.querySelectorAll('.on').forEach((x) => x.classList.remove('on'));
  const mark = (i) => {
    clear();
    rows[i].classList.add('on');
    for (let at = fields[i].offset; at < fields[i].offset + fields[i].length; at++) byte(at)?.classList.add('on');
    byte(fields[i].offset)?.scrollIntoView({ block: 'nearest' });
  };
  rows.forEach((row, i) => {
    row.addEventListener('pointerenter', () => mark(i));
    row.addEventListener('focus', () => mark(i));
    row.addEventListener('keydown', (e) => {
      const next = { ArrowDown: i + 1, ArrowUp: i - 1, Home: 0, End: rows.length - 1 }[e.key];
      if (next === undefined || !rows[next]) return;
      e.preventDefault();
      e.stopPropagation();
      row.tabIndex = -1;
      rows[next].tabIndex = 0;
      rows[next].focus();
    });
  });
  box.querySelectorAll('.b').forEach((b) => b.addEventListener('pointerenter', () => {
    clear();
    const at = Number(b.dataset.at);
    b.classList.add('on');
    fields.forEach((f, i) => {
      if (at >= f.offset && at < f.offset + f.length) rows[i].classList.add('on');
    });
  }));
  box.querySelector('.hex')?.addEventListener('pointerleave', clear);
}
