// Elements and words. Data of the proxy becomes text nodes and attributes, never markup.
'use strict';

const byId = (id) => document.getElementById(id);
const SVG = 'http://www.w3.org/2000/svg';
const HTML = 'http://www.w3.org/1999/xhtml';

function build(namespace, name, attributes, children) {
  const element = document.createElementNS(namespace, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const make = (name, attributes = {}, ...children) => build(HTML, name, attributes, children);
const draw = (name, attributes = {}, ...children) => build(SVG, name, attributes, children);

// Replaces only what has changed, so that a reader's place and a screen reader's attention stay.
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });

function count(number) {
  if (number === null || number === undefined) return '–';
  if (number > 0 && number < 10 && !Number.isInteger(number)) return number.toFixed(1);
  return Math.abs(number) < 100000 ? whole.format(number) : compact.format(number);
}

function scaled(number, step, units) {
  if (number === null || number === undefined) return '–';
  let at = 0;
  while (number >= step && at < units.length - 1) {
    number /= step;
    at += 1;
  }
  return `${number < 10 && at > 0 ? number.toFixed(1) : whole.format(number)} ${units[at]}`;
}

const bytes = (number) => scaled(number, 1000, ['B', 'kB', 'MB', 'GB', 'TB']);

function milliseconds(number) {
  if (number === null || number === undefined) return '–';
  if (number === 0) return '0 ms';
  if (number < 0.01) return '< 0.01 ms';
  if (number < 1) return `${number.toFixed(2)} ms`;
  if (number < 1000) return `${number < 10 ? number.toFixed(1) : whole.format(number)} ms`;
  return duration(number / 1000);
}

const UNITS = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];

// "2 h 5 min", "12 s", "1.4 s": the two largest units.
function duration(seconds) {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  let left = Math.round(seconds);
  const words = [];
  for (const [unit, length] of UNITS) {
    const number = Math.floor(left / length);
    if (number) words.push(`${number} ${unit}`);
    left -= number * length;
    if (words.length === 2 || (seconds >= 600 && words.length && unit === 'min')) break;
  }
  return words.join(' ');
}

// `duration` for whole seconds: "5 s", not "5.0 s".
const round = (seconds) => (seconds < 10 ? `${seconds} s` : duration(seconds));

const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? '' : 's'}`;

// columns: [title, class, cell(row)]; a cell is text or an element.
function table(caption, columns, rows) {
  const head = make('tr', {}, ...columns.map(([title, kind]) => make('th', { scope: 'col', class: kind }, title)));
  const body = rows.map((row) => make('tr', {}, ...columns.map(([, kind, cell]) => make('td', { class: kind }, cell(row)))));
  const titled = make('caption', { class: 'unseen' }, caption);
  const whole = make('table', {}, titled, make('thead', {}, head), make('tbody', {}, ...body));
  return make('div', { class: 'scroll' }, whole);
}

// The first rows, and the rest where it is opened.
const FEW = 5;
function folded(caption, columns, rows, noun) {
  if (rows.length <= FEW + 1) return table(caption, columns, rows);
  const more = `${count(rows.length - FEW)} more ${noun}`;
  const rest = make('details', {}, make('summary', {}, more), table(`${caption}, ${more}`, columns, rows.slice(FEW)));
  return make('div', {}, table(caption, columns, rows.slice(0, FEW)), rest);
}

// A text that is to be typed or pasted elsewhere, with a button that copies it.
function copyable(text) {
  const code = make('code', {}, text);
  const button = make('button', { type: 'button', class: 'copy', 'aria-label': `Copy ${text}` }, 'Copy');
  button.addEventListener('click', async () => {
    say(button, (await copied(code)) ? 'Copied' : 'Select it');
    setTimeout(() => say(button, 'Copy'), 2000);
  });
  return make('span', { class: 'copyable' }, code, button);
}

// Without TLS, only pages of this machine have a clipboard; elsewhere the old way still works.
async function copied(code) {
  getSelection().selectAllChildren(code);
  try {
    await navigator.clipboard.writeText(code.textContent);
    return true;
  } catch {
    return document.execCommand('copy');
  }
}

// A long table in a box of its own, which the keyboard can scroll.
function scrolled(box) {
  const caption = box.querySelector('caption').textContent;
  for (const [key, value] of Object.entries({ tabindex: '0', role: 'region', 'aria-label': caption })) box.setAttribute(key, value);
  return box;
}

function bar(share) {
  const element = make('span', { class: 'bar' });
  element.style.width = `${Math.max(share * 100, 0)}%`;
  return element;
}

// Builds anew only when the data is new, so that a selection and the focus stay where they are.
const shown = new WeakMap();
function fill(host, data, builder) {
  const now = JSON.stringify(data);
  if (shown.get(host) === now) return;
  shown.set(host, now);
  const old = host.querySelector('.scroll');
  const place = old && { left: old.scrollLeft, top: old.scrollTop, isFocused: document.activeElement === old };
  const focused = host.contains(document.activeElement) && document.activeElement.textContent;
  const isOpen = host.querySelector('details')?.open;
  host.replaceChildren(builder(data));
  if (isOpen) host.querySelector('details')?.setAttribute('open', '');
  const same = focused && [...host.querySelectorAll('a, button, summary')].find((each) => each.textContent === focused);
  if (same) same.focus({ preventScroll: true });
  const box = host.querySelector('.scroll');
  if (!place || !box) return;
  if (place.isFocused) box.focus({ preventScroll: true });
  box.scrollTo(place.left, place.top);
}
