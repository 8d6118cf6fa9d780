'use strict';
// Both ends at the slider's time: states, queues, memory, and what happens just now. Memory is told
// by what changes from moment to moment. Of devices that run only what they record is known.

const ROW = 8; // bytes
const MAX_ROWS = 64; // of a region

/** momentAt is the number of the last moment that is not after a time; -1: none yet. */
function momentAt(play, time) {
  const moments = play.moments || [];
  let found = -1;
  for (let i = 0; i < moments.length && moments[i].time <= time; i++) found = i;
  return found;
}

/** memoryAt is what each region of a host holds, and which bytes are new at this moment. At the first one none is. */
function memoryAt(play, host, moment) {
  const regions = (play.hosts[host].regions || []).map((r) => ({ ...r, bytes: new Uint8Array(r.length), fresh: new Set(), used: new Set() }));
  (play.moments || []).forEach((m, i) => {
    for (const change of (m.hosts[host] || {}).memory || []) {
      const region = regions[change.region];
      if (!region) continue;
      bytesOf(change.bytes).forEach((b, k) => {
        region.used.add(Math.floor((change.offset + k) / ROW));
        if (i > moment) return;
        region.bytes[change.offset + k] = b;
        if (play.moments[moment].time > play.moments[0].time && m.time === play.moments[moment].time) region.fresh.add(change.offset + k);
      });
    }
  });
  return regions;
}

/** showEnds draws all hosts of the play. */
function showEnds() {
  const play = app.play;
  const box = byId('ends');
  box.hidden = !(play.moments || []).length;
  if (box.hidden) return;
  const at = momentAt(play, app.now);
  const setUp = app.lesson && !app.lesson.setUp && app.now === app.stops[0];
  const happening = (play.entries || []).filter((e) => e.time === app.now && !setUp);
  refill(box,
    app.lesson ? '' : el('h2', {}, 'Queue pairs, and requests under way ', el('small', { class: 'remark' }, 'at ' + timeText(app.now, Math.max(app.end, 1)))),
    insideView(),
    el('div', { class: 'now-list', 'aria-live': app.playing ? 'off' : 'polite' }, happening.slice(-2).map((e) => el('div', { class: failedEntry(e) ? 'wrongtext' : '' }, el('b', {}, hostName(e.host)), ' ', e.text))),
    el('div', { class: 'both', 'data-hosts': play.hosts.length }, play.hosts.map((host, i) => showEnd(play, host, i, at))));
  box.querySelectorAll('.hex').forEach((dump) => {
    const fresh = dump.querySelector('.new');
    if (fresh) dump.scrollTop = fresh.offsetTop - dump.offsetTop - 20;
  });
}

function showEnd(play, host, index, moment) {
  const state = (at) => (at >= 0 && play.moments[at].hosts[index]) || { qps: [], cqs: [], memory: [] };
  const now = state(moment);
  const queues = el('div', { class: 'queues' });
  const regions = el('div', { class: 'regions' });
  const head = el('div', { class: 'head' }, el('b', {}, host.name), el('span', { class: 'remark' }, host.addr || ''));
  for (const q of now.qps || []) {
    const type = (host.qps || []).find((x) => x.qpn === q.qpn);
    const said = [el('span', {}, `${type ? type.type : 'QP'} 0x${hex(q.qpn, 6)}`), el('span', { class: 'state' + (q.state === 'ERR' ? ' wrongtext' : '') }, q.state)];
    if (now.qps.length === 1) head.append(...said);
    else queues.append(el('div', { class: 'head' }, said));
    const idle = now.qps.length > 1 && !(q.sq || []).length && !(q.rq || []).length;
    if (!idle && q.sq) queues.append(queueView('SQ', 'Send queue', q.sq, requestCell));
    if (!idle && q.rq) queues.append(queueView('RQ', 'Receive queue', q.rq, requestCell));
  }
  (now.cqs || []).forEach((c, i) => queues.append(queueView((now.cqs.length > 1 ? 'CQ' + i : 'CQ'), 'Completion queue', c, completionCell)));
  for (const r of memoryAt(play, index, moment)) if (!(r.since > app.now)) regions.append(regionView(r));
  return el('article', { class: 'end', 'aria-label': 'Host ' + host.name }, head, el('div', { class: 'parts' }, queues.children.length ? queues : '', regions.children.length ? regions : ''));
}

/** queueView draws a queue, its oldest entry first. */
function queueView(name, title, list, cell) {
  const cells = (list || []).map(cell);
  return el('div', { class: 'queue', title }, el('span', { class: 'name' }, name), el('div', { class: 'cells', 'aria-label': title }, cells.length ? cells : el('span', { class: 'cell none' }, 'empty')));
}

const requestCell = (w) => el('span', { class: 'cell ' + w.state, title: w.signaled === false ? 'not signaled: yields no completion if all goes well' : '' },
  `#${w.wrid} ${w.op} ${w.length} B · ${w.state}${w.signaled === false ? ' · unsignaled' : ''}`);

const completionCell = (c) => {
  const good = /SUCCESS/.test(c.status);
  return el('span', { class: 'cell ' + (good ? 'good' : 'bad') }, `#${c.wrid} ${c.status.replace('IBV_WC_', '')}${good ? ` ${c.op} ${c.length} B` : ` (${c.number})`}`);
};

/** regionView dumps the rows of a region that are used at any time of the play. */
function regionView(r) {
  const used = [...r.used].sort((a, b) => a - b);
  const shown = used.length ? used.slice(0, MAX_ROWS) : [0];
  const dump = el('div', { class: 'hex', role: 'group', tabindex: 0, 'aria-label': 'Memory ' + r.name });
  const start = parseInt(r.addr, 16) || 0;
  let next = 0;
  for (const row of shown) {
    if (row > next) dump.append(el('span', { class: 'more' }, `… ${plural((row - next) * ROW, 'byte')} that stay 0`));
    next = row + 1;
    const bytes = [...r.bytes.slice(row * ROW, row * ROW + ROW)];
    if (!bytes.length) break;
    dump.append(el('span', { class: 'at' }, hex(start + row * ROW, 6)),
      el('span', { class: 'row' }, bytes.map((b, k) => el('span', { class: 'b' + (r.fresh.has(row * ROW + k) ? ' new' : '') }, hex(b, 2)))),
      el('span', { class: 'text' }, bytes.map(letter).join('')));
  }
  const rest = r.length - next * ROW;
  if (used.length > MAX_ROWS) dump.append(el('span', { class: 'more' }, `… ${plural(rest, 'byte')} more`));
  const gone = r.until && r.until <= app.now;
  const key = gone ? ': closed, its key is gone' : r.rkey ? `, rkey 0x${hex(r.rkey, 8)}` : '';
  return el('div', { class: gone ? 'region gone' : 'region' }, el('div', { class: 'name', title: r.access || '' }, el('b', {}, r.name), ` ${plural(r.length, 'byte')} at ${r.addr}${key}`), gone ? '' : dump);
}
