'use strict';
// Flows over time: PSNs and what happened to them, throughput, and how long messages took. A graph
// is of bins, at most 512 of them; a cursor goes from bin to bin, by pointer and by keys, and says in
// words what is there.

const GRAPHS = [
  { id: 'psn', name: 'PSN', draw: drawPSN },
  { id: 'rate', name: 'Throughput', draw: drawRate },
  { id: 'took', name: 'Messages', draw: drawTook },
];

// What can happen to a PSN: its name, its colour, and its shape, for those who see no colours.
const MARKS = {
  again: ['sent again', 'nak', 'M-4 -4 l8 8 m0 -8 l-8 8'],
  nak: ['missing at the receiver (NAK)', 'wrong', 'M0 -5 l5 9 h-10 z'],
  rnr: ['no receive was posted (RNR NAK)', 'cnp', 'M0 -5 l5 5 l-5 5 l-5 -5 z'],
  refused: ['refused', 'wrong', 'M-4 -4 h8 v8 h-8 z'],
  damaged: ['wrong ICRC', 'wrong', 'M-5 0 h10 M0 -5 v10'],
  missing: ['not in the capture', 'soft', 'M-4 0 h8'],
  congestion: ['marked by a switch', 'cnp', 'M-3 0 a3 3 0 1 0 6 0 a3 3 0 1 0 -6 0'],
};

const graphs = { which: 'psn', flow: -1, open: true, cursor: 0, bins: [], table: false };

const MARGIN = { left: 62, right: 14, top: 8, bottom: 20 };

/** graphWays are the flows that have a graph. */
const graphWays = () => study.verdict.connections.flatMap((c) => c.ways).filter((w) => w.graphs);

/** showGraphs makes the panel: which graph, which flow. */
function showGraphs() {
  const ways = graphWays();
  const box = byId('graphs');
  box.hidden = !ways.length || app.mode !== 'file';
  if (box.hidden) return;
  if (graphs.flow < 0) graphs.flow = worst(ways).number;
  refill(box,
    el('div', { class: 'bar' },
      el('button', { type: 'button', 'aria-expanded': String(graphs.open), 'aria-controls': 'graph', 'aria-keyshortcuts': 'g', click: toggleGraphs }, 'Graphs ', el('kbd', {}, 'g')),
      graphs.open ? [
        el('span', { class: 'buttons', role: 'group', 'aria-label': 'Which graph' }, GRAPHS.map((g) => el('button', { type: 'button', id: 'graph-' + g.id, 'aria-pressed': String(g.id === graphs.which), click: () => pickGraph({ which: g.id }, 'graph-' + g.id) }, g.name))),
        el('label', {}, 'Flow ', el('select', { id: 'graph-flow', change: (e) => pickGraph({ flow: Number(e.target.value), cursor: 0 }, 'graph-flow') }, ways.slice(0, 256).map((w) => el('option', { value: w.number, selected: w.number === graphs.flow }, `${wayName(w)} qp ${qpText(w.dest_qp)}`)))),
        el('label', { class: 'check' }, el('input', { id: 'graph-table', type: 'checkbox', checked: graphs.table, change: (e) => pickGraph({ table: e.target.checked }, 'graph-table') }), ' as a table'),
        el('span', { id: 'graph-legend', class: 'legend' })] : ''),
    graphs.open ? el('div', { id: 'graph' }) : '');
  if (graphs.open) drawGraph();
}

/** worst is the flow with the most that is worth a look. */
function worst(ways) {
  const score = (w) => w.findings.length * 10 + (w.more_findings || 0) + Object.values(w.went_back || {}).reduce((a, b) => a + b, 0) * 20 + (w.messages ? 5 : 0) + Math.log2(w.packets + 1);
  return ways.reduce((a, b) => (score(b) > score(a) ? b : a));
}

function toggleGraphs() {
  graphs.open = !graphs.open;
  showGraphs();
  byId('graphs').querySelector('button')?.focus();
}

function pickGraph(change, focus) {
  Object.assign(graphs, change);
  showGraphs();
  byId(focus)?.focus();
}

/** drawGraph draws the flow at hand. */
async function drawGraph() {
  const flow = graphs.flow;
  let g;
  try {
    g = await graphOf(flow);
  } catch (e) {
    byId('graph').replaceChildren(el('p', { class: 'wrongtext' }, String(e.message || e)));
    return;
  }
  const box = byId('graph');
  if (!box || flow !== graphs.flow) return;
  graphs.bins = g.bins;
  graphs.cursor = Math.min(graphs.cursor, Math.max(0, g.bins.length - 1));
  if (graphs.table) {
    refill(box, tableOf(g));
    return;
  }
  const plot = { g, w: Math.max(280, box.clientWidth - 24), h: Math.max(80, box.clientHeight - 24), end: Math.max(1, study.verdict.duration_ns) };
  plot.x = (t) => MARGIN.left + (Math.min(t, plot.end) / plot.end) * (plot.w - MARGIN.left - MARGIN.right);
  plot.at = (b) => plot.x((b.i + 0.5) * g.width);
  plot.y = (part) => plot.h - MARGIN.bottom - part * (plot.h - MARGIN.top - MARGIN.bottom);
  const kind = GRAPHS.find((x) => x.id === graphs.which);
  const picture = svg('svg', { width: plot.w, height: plot.h, viewBox: `0 0 ${plot.w} ${plot.h}`, 'aria-hidden': 'true' });
  plot.picture = picture;
  kind.draw(plot);
  for (let i = 0; i <= 4; i++) picture.append(svg('text', { class: 'stamp', x: plot.x((plot.end * i) / 4), y: plot.h - 5, 'text-anchor': i === 0 ? 'start' : i === 4 ? 'end' : 'middle' }, timeText((plot.end * i) / 4, plot.end)));
  plot.line = svg('line', { class: 'cursor', y1: MARGIN.top, y2: plot.h - MARGIN.bottom });
  picture.append(plot.line);
  const stage = el('div', { id: 'graph-cursor', class: 'stage', role: 'slider', tabindex: 0, 'aria-label': `${kind.name} over time, ${byId('graph-flow').selectedOptions[0].textContent}. Arrow keys go on in time, Enter goes to the packet.`, 'aria-valuemin': 0, 'aria-valuemax': Math.max(0, g.bins.length - 1) }, picture);
  const words = el('div', { class: 'words', id: 'graph-words' });
  refill(box, stage, words);
  const move = (i) => {
    graphs.cursor = Math.min(Math.max(i, 0), g.bins.length - 1);
    const b = g.bins[graphs.cursor];
    if (!b) return;
    const x = plot.at(b);
    plot.line.setAttribute('x1', x);
    plot.line.setAttribute('x2', x);
    words.textContent = binWords(g, b);
    stage.setAttribute('aria-valuenow', graphs.cursor);
    stage.setAttribute('aria-valuetext', words.textContent);
  };
  listenToGraph(stage, plot, move);
  move(graphs.cursor);
}

/** listenToGraph moves the cursor by pointer and by keys. */
function listenToGraph(stage, plot, move) {
  const nearest = (e) => {
    const x = e.clientX - stage.getBoundingClientRect().left;
    let best = 0;
    plot.g.bins.forEach((b, i) => {
      if (Math.abs(plot.at(b) - x) < Math.abs(plot.at(plot.g.bins[best]) - x)) best = i;
    });
    return best;
  };
  const go = () => {
    const n = packetOf(plot.g.bins[graphs.cursor]);
    if (n) attempt(() => jumpTo(n));
  };
  stage.addEventListener('pointermove', (e) => move(nearest(e)));
  stage.addEventListener('click', (e) => {
    move(nearest(e));
    go();
  });
  stage.addEventListener('keydown', (e) => {
    const steps = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 20, PageDown: -20, Home: -1e9, End: 1e9 };
    if (steps[e.key]) move(graphs.cursor + steps[e.key]);
    else if (e.key === 'Enter') go();
    else return;
    e.preventDefault();
    e.stopPropagation();
  });
}

/** packetOf is where a bin leads to: to what is worth a look, else to its first packet. */
function packetOf(b) {
  if (!b) return 0;
  for (const name of Object.keys(MARKS)) if (b.m && b.m[name]) return b.m[name][3];
  if (graphs.which === 'took' && b.d) return b.d[3];
  return b.p || (b.s && b.s[3]) || (b.d && b.d[3]) || 0;
}

const psnText = (g, at) => String((((g.base + at) % 2 ** 24) + 2 ** 24) % 2 ** 24);
const rangeText = (g, low, high) => (low === high ? `PSN ${psnText(g, low)}` : `PSN ${psnText(g, low)} to ${psnText(g, high)}`);

/** binWords says what is in a bin. */
function binWords(g, b) {
  const all = [`${timeText(b.i * g.width, study.verdict.duration_ns)}${g.width > 1000 ? ` and ${span(g.width)} on` : ''}: ${plural(b.n || 0, 'packet')}`];
  if (b.s) all.push(`${rangeText(g, b.s[1], b.s[2])} sent`);
  if (b.a !== undefined) all.push(`PSN ${psnText(g, b.a)} acknowledged`);
  for (const [name, [what]] of Object.entries(MARKS)) if (b.m && b.m[name]) all.push(`${b.m[name][0]} × ${what}, ${rangeText(g, b.m[name][1], b.m[name][2])}`);
  if (b.b) all.push(`${rateText(rateOf(g, b))}`);
  if (b.d) all.push(`${plural(b.d[0], 'message')} begun, ${b.d[0] > 1 ? span(b.d[1]) + ' to ' : ''}${span(b.d[2])} long`);
  return all.join('; ');
}

const rateOf = (g, b) => (8e9 * (b.b || 0)) / g.width; // bits a second
const rateText = (r) => (r >= 1e9 ? (r / 1e9).toFixed(2) + ' Gbit/s' : r >= 1e6 ? (r / 1e6).toFixed(2) + ' Mbit/s' : (r / 1e3).toFixed(1) + ' kbit/s');

/** drawAxis writes values at the left. */
function drawAxis(plot, texts) {
  texts.forEach((text, i) => {
    const y = plot.y(texts.length < 2 ? 0.5 : i / (texts.length - 1));
    plot.picture.append(svg('line', { class: 'gap', x1: MARGIN.left, x2: plot.w - MARGIN.right, y1: y, y2: y }), svg('text', { class: 'stamp', x: MARGIN.left - 6, y: y + 4, 'text-anchor': 'end' }, text));
  });
}

/** legend says what the signs mean. */
function legend(items) {
  refill(byId('graph-legend'), items.map(([path, colour, text]) => el('span', {}, svg('svg', { width: 12, height: 12, viewBox: '-6 -6 12 12', 'aria-hidden': 'true' }, svg('path', { class: 'mark ' + colour, d: path })), text)));
}

const SENT = 'M-5 4 L5 -4';
const ACKED = 'M-5 4 h5 v-8 h5';

/** drawPSN draws what was sent, what was acknowledged, and what happened to single PSNs. */
function drawPSN(plot) {
  const { g } = plot;
  const at = g.bins.flatMap((b) => [...(b.s ? [b.s[1], b.s[2]] : []), ...Object.values(b.m || {}).flatMap((m) => [m[1], m[2]])]);
  if (!at.length) {
    nothing(plot, 'No request went this way.');
    return;
  }
  const low = at.reduce((a, b) => Math.min(a, b));
  const high = Math.max(low + 1, at.reduce((a, b) => Math.max(a, b)));
  const y = (v) => plot.y((v - low) / (high - low));
  drawAxis(plot, [0, 0.5, 1].map((part) => psnText(g, Math.round(low + part * (high - low)))));
  let acked = '';
  for (const b of g.bins) {
    const x = plot.at(b);
    if (b.s) plot.picture.append(svg('line', { class: 'sent', x1: x, x2: x, y1: y(b.s[1]) + 1, y2: y(b.s[2]) - 1 }));
    if (b.a !== undefined && b.a >= low) acked += acked ? ` H${x} V${y(b.a)}` : `M${x} ${y(b.a)}`;
  }
  if (acked) plot.picture.append(svg('path', { class: 'acked', d: acked }));
  const used = new Set();
  for (const b of g.bins) {
    for (const [name, m] of Object.entries(b.m || {})) {
      used.add(name);
      const x = plot.at(b);
      if (m[2] > m[1]) plot.picture.append(svg('line', { class: 'markspan ' + MARKS[name][1], x1: x, x2: x, y1: y(m[1]), y2: y(m[2]) }));
      plot.picture.append(svg('path', { class: 'mark ' + MARKS[name][1], d: MARKS[name][2], transform: `translate(${x} ${y(m[1])})` }));
    }
  }
  legend([[SENT, 'request', 'sent'], [ACKED, 'ack', 'acknowledged'], ...[...used].map((n) => [MARKS[n][2], MARKS[n][1], MARKS[n][0]])]);
}

/** drawRate draws payload over time. */
function drawRate(plot) {
  const { g } = plot;
  const most = g.bins.reduce((a, b) => Math.max(a, rateOf(g, b)), 0);
  if (!most) {
    nothing(plot, 'No payload went this way.');
    return;
  }
  drawAxis(plot, [0, 0.5, 1].map((part) => rateText(part * most)));
  const wide = Math.max(1, plot.x(g.width) - plot.x(0));
  for (const b of g.bins) {
    const y = plot.y(rateOf(g, b) / most);
    if (b.b) plot.picture.append(svg('rect', { class: 'rate', x: plot.at(b) - wide / 2, width: wide, y, height: Math.max(1, plot.y(0) - y) }));
  }
  legend([['M-4 -4 h8 v8 h-8 z', 'request', `payload, by ${span(g.width)}`]]);
}

/** drawTook draws how long messages took, from their first packet to the ACK, by when they began. */
function drawTook(plot) {
  const bins = plot.g.bins.filter((b) => b.d);
  if (!bins.length) {
    nothing(plot, 'No message that went this way was seen to its end.');
    return;
  }
  const low = Math.max(1, bins.reduce((a, b) => Math.min(a, b.d[1]), Infinity));
  const high = Math.max(low * 1.01, bins.reduce((a, b) => Math.max(a, b.d[2]), 0));
  const steep = high / low > 30;
  const y = (ns) => plot.y(steep ? Math.log(Math.max(ns, low) / low) / Math.log(high / low) : ns / high);
  drawAxis(plot, [0, 0.5, 1].map((part) => span(Math.round(steep ? low * (high / low) ** part : part * high))));
  for (const b of bins) {
    const x = plot.at(b);
    plot.picture.append(svg('line', { class: 'took', x1: x, x2: x, y1: y(b.d[1]), y2: y(b.d[2]) }), svg('circle', { class: 'took', cx: x, cy: y(b.d[2]), r: 2 }), svg('circle', { class: 'took', cx: x, cy: y(b.d[1]), r: 2 }));
  }
  legend([['M-2 0 a2 2 0 1 0 4 0 a2 2 0 1 0 -4 0', 'response', `from first packet to ACK or answer${steep ? ' (logarithmic)' : ''}`]]);
}

function nothing(plot, text) {
  plot.picture.append(svg('text', { class: 'stamp', x: plot.w / 2, y: plot.h / 2, 'text-anchor': 'middle' }, text));
  legend([]);
}

/** tableOf is the graph in words: the bins in which something is worth a look, or the first ones. */
function tableOf(g) {
  const marked = g.bins.filter((b) => b.m);
  const rows = (marked.length ? marked : g.bins).slice(0, 200);
  refill(byId('graph-legend'), marked.length ? `${plural(marked.length, 'time')} at which something happened to a PSN` : `${plural(g.bins.length, 'time')}`);
  return el('div', { class: 'tablebox', tabindex: 0, role: 'region', 'aria-label': 'The graph as a table' },
    el('table', {}, el('thead', {}, el('tr', {}, ['Packet', 'What is there'].map((t) => el('th', { scope: 'col' }, t)))),
      el('tbody', {}, rows.map((b) => el('tr', {}, el('td', {}, packetOf(b) ? packetLink(packetOf(b), packetOf(b)) : ''), el('td', {}, binWords(g, b)))))));
}
