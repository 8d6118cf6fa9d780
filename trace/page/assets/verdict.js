'use strict';
// The verdict: what the analysis has found of the whole capture, beside the ladder. Each finding
// leads to its packets, and n to the next problem.

const study = {
  verdict: null, // of the capture, null: not known yet
  graphs: {}, // by flow
};

/** loadVerdict asks once for what was found of the whole capture. */
async function loadVerdict() {
  if (!given.study || study.verdict) return;
  byId('verdict').replaceChildren(el('p', { class: 'remark', role: 'status' }, 'Reading all of the capture …'));
  study.verdict = given.static ? await (await unpacked('study')).json() : await ask('verdict');
  study.graphs = study.verdict.graphs || {};
  showVerdict();
  showGraphs();
}

/** graphOf gets a flow over time. */
async function graphOf(flow) {
  if (!study.graphs[flow]) study.graphs[flow] = given.static ? { width: 1, base: 0, bins: [] } : await ask(`graph?flow=${flow}`);
  return study.graphs[flow];
}

/** showStudied shows or hides what is about a whole capture. */
function showStudied() {
  const on = app.mode === 'file' && given.study;
  byId('verdict').hidden = !on;
  byId('expression').hidden = app.mode !== 'file';
  byId('graphs').hidden = !on;
}

const wayName = (w) => `${w.src} → ${w.dst}`;
const qpText = (n) => '0x' + hex(n || 0, 6);
const packetLink = (n, text, title) => el('button', { type: 'button', class: 'link', title: title || `Go to packet ${n}`, click: () => attempt(() => jumpTo(n)) }, text || `packet ${n}`);

/** showVerdict fills the panel. */
function showVerdict() {
  const v = study.verdict;
  const bad = v.connections.filter((c) => c.ways.some((w) => w.findings.length)).length;
  const many = plural(v.problems.length, 'packet') + (v.more_problems ? ' and more' : '');
  refill(byId('verdict'),
    el('h2', {}, 'Verdict'),
    el('p', { class: 'verdict ' + (v.problems.length ? 'bad' : 'good') }, `${plural(v.packets, 'packet')} of RoCE in ${timeText(v.duration_ns, Math.max(v.duration_ns, 1))}: ${v.verdict}.`),
    v.problems.length ? el('p', { class: 'buttons' },
      el('button', { type: 'button', 'aria-keyshortcuts': 'N', click: () => nextProblem(-1) }, 'Previous problem ', el('kbd', {}, 'N')),
      el('button', { type: 'button', class: 'primary', 'aria-keyshortcuts': 'n', click: () => nextProblem(1) }, 'Next problem ', el('kbd', {}, 'n')), el('span', { class: 'remark' }, many)) : '',
    (v.remarks || []).map((r) => el('p', { class: 'remark' }, r)),
    v.connections.map((c, i) => connectionView(c, bad ? c.ways.some((w) => w.findings.length) && i < 3 : i < 1)),
    v.more_connections ? el('p', { class: 'remark' }, `… and ${plural(v.more_connections, 'connection')} more: roce trace analyze has all`) : '',
    v.datagrams.filter((d) => d.findings.length || d.packets).slice(0, 50).map((d) => datagramsView(d)));
}

/** connectionView is a connection: its ends, and what was found of each way. */
function connectionView(c, open) {
  const [a, b] = c.ways;
  return el('details', { open },
    el('summary', {}, `${c.service} ${a.src}${a.src_qp ? ' qp ' + qpText(a.src_qp) : ''} ⇄ ${a.dst} qp ${qpText(a.dest_qp)}: `, el('span', { class: /no problem/.test(c.verdict) ? '' : 'wrongtext' }, c.verdict)),
    el('p', { class: 'remark' }, c.known ? `The two ways belong together by ${c.known}` : 'The other way is not in the capture, or could not be told', c.path_mtu ? `; path MTU ${c.path_mtu}.` : '.'),
    wayView(a), b ? wayView(b) : '');
}

const datagramsView = (d) => el('details', { open: d.findings.length > 0 }, el('summary', {}, `UD ${d.src} qp ${qpText(d.src_qp)} → ${d.dst} qp ${qpText(d.dest_qp)}: ${plural(d.packets, 'packet')}`), wayView(d));

/** wayView is what went one way. */
function wayView(w) {
  const rows = [
    ...(w.messages || []).map((m) => `${m.count.toLocaleString('en')} × ${m.kind}, ${plural(m.bytes, 'byte')}`),
    w.latency_ns ? `A message took ${span(w.latency_ns.min)} at least, ${span(w.latency_ns.median)} in the median, ${span(w.latency_ns.p99)} in 99 of 100, ${span(w.latency_ns.max)} at most` : '',
    ...Object.entries(w.went_back || {}).map(([why, n]) => `went back ${n} × ${why}`),
    w.guessed_causes ? `${w.guessed_causes} of these causes are guesses` : '',
    ...Object.entries(w.counts || {}).map(([what, n]) => `${n.toLocaleString('en')} ${what}`),
    w.unacknowledged ? `${plural(w.unacknowledged, 'message')} not acknowledged at the end` : '',
    w.recorded ? 'As its device has recorded: ' + w.recorded : '',
  ].filter(Boolean);
  return el('div', { class: 'way' }, el('h3', {}, wayName(w), el('small', {}, ` ${plural(w.packets, 'packet')}`)),
    w.findings.length ? el('ol', { class: 'findings' }, w.findings.map(findingView)) : '',
    rows.length ? el('ul', {}, rows.map((r) => el('li', {}, r))) : '',
    w.more_findings ? el('p', { class: 'remark' }, `… and ${w.more_findings.toLocaleString('en')} more of the like`) : '');
}

/** span is a time in the unit that it asks for. */
function span(ns) {
  const [unit, size] = ns < 1e3 ? ['ns', 1] : ns < 1e6 ? ['µs', 1e3] : ns < 1e9 ? ['ms', 1e6] : ['s', 1e9];
  return `${Number((ns / size).toPrecision(3))} ${unit}`;
}

/** findingView is a finding, and the packets that it rests on. */
function findingView(f) {
  return el('li', { class: f.weight },
    el('span', { class: 'weight' }, f.weight), f.guess ? el('span', { class: 'weight guess' }, 'a guess') : '', ' ', packetLink(f.packet), ` at ${timeText(f.time_ns, Math.max(study.verdict.duration_ns, 1))}: ${f.text}`, f.rule ? el('small', {}, ` (${f.rule})`) : '',
    el('div', { class: 'reason' }, 'Seen: ', f.reason.map((s, i) => [i ? '; ' : '', packetLink(s.packet, s.packet, `Packet ${s.packet}, PSN ${s.psn}`), ' ', s.shows])));
}

/** jumpTo shows a packet of the capture, wherever it is. */
async function jumpTo(n) {
  const there = () => app.play.packets.find((p) => p.n === n);
  if (!there() && !given.static) {
    byId('filter-wrong').checked = false;
    byId('expression-text').value = '';
    await openFile(Math.max(1, n - 20));
  }
  if (!there()) {
    say(`Packet ${n} is not in this file: it has packets ${app.play.packets[0]?.n || 0} to ${app.play.packets.at(-1)?.n || 0}.`);
    return;
  }
  if (!ladder.rows.arrows.some((a) => a.packet.n === n)) { // a filter hides it
    byId('filter').reset();
    byId('expression-text').value = '';
    expression.places = null;
    readFilter();
  }
  select(n);
  await openPacket();
}

/** nextProblem goes to the next problem, in this window or in all of the capture. */
function nextProblem(by) {
  if (app.mode === 'lessons') return;
  const at = app.selected || (by > 0 ? 0 : Infinity);
  const here = ladder.rows.arrows.filter((a) => problem(a.packet)).map((a) => a.packet.n);
  const behind = [...((study.verdict && !given.static && study.verdict.problems) || []), ...here].filter((n) => (by > 0 ? n > at : n < at));
  if (!behind.length) {
    say(by > 0 ? `No problem behind packet ${app.selected || 0}.` : 'No problem before this packet.');
    return;
  }
  const n = by > 0 ? behind.reduce((a, b) => Math.min(a, b)) : behind.reduce((a, b) => Math.max(a, b));
  attempt(() => jumpTo(n));
}
