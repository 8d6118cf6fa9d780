'use strict';
// Elements. What comes from a capture is anybody's: it becomes text nodes and attributes of our own
// choosing, and never markup; innerHTML occurs nowhere.

const SVG = 'http://www.w3.org/2000/svg';

const byId = (id) => document.getElementById(id);

/** build sets attributes (functions are listeners) and appends children; strings become text. */
function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === 'function') node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== undefined && child !== null && child !== false) node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

/** refill gives an element other children. */
function refill(node, ...children) {
  node.replaceChildren();
  return build(node, {}, children);
}

const el = (tag, attributes, ...children) => build(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => build(document.createElementNS(SVG, tag), attributes, children);

/** bytesOf turns hexadecimal digits into numbers. */
function bytesOf(hex) {
  const out = [];
  for (let i = 0; i + 1 < (hex || '').length; i += 2) out.push(parseInt(hex.slice(i, i + 2), 16));
  return out;
}

const hex = (n, digits) => n.toString(16).padStart(digits, '0');
const letter = (b) => (b >= 0x20 && b < 0x7f ? String.fromCharCode(b) : '·');

/** plural: "1 packet", "3,000 packets". */
const plural = (n, one, many) => n.toLocaleString('en') + ' ' + (n === 1 ? one : many || one + 's');

/** timeText writes nanoseconds in the unit that the whole span asks for. */
function timeText(ns, span) {
  const [unit, size] = span < 2e4 ? ['ns', 1] : span < 1e8 ? ['µs', 1e3] : span < 1e11 ? ['ms', 1e6] : ['s', 1e9];
  return (ns / size).toLocaleString('en', { maximumFractionDigits: size < 1e9 ? 3 : 6, minimumFractionDigits: size === 1 ? 0 : 1 }) + ' ' + unit;
}
