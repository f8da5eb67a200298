// Charts as SVG: a line for each series, columns, sparklines; each gives its numbers in words as well.
// Samples: as many as the proxy keeps, of a second or of ten, and as a chart is wide at least.
const WINDOW = 300;
const HOUR_WINDOW = 360;
const HOUR_STEP = 10;
const NARROW = 60;
// Seconds between two marks of time: the first of which there are not too many.
const MARKS = [15, 60, 120, 600];
const MOST_MARKS = 6;
// style.css has these, too.
const HEIGHT = matchMedia('(max-width: 46rem)').matches ? 110 : 150;
const LEFT = 54;
const BOTTOM = 18;
const TOP = 8;

// The least of 1, 2, 2.5 and 5 times a power of ten that is not below the number.
function ceiling(number) {
  if (!(number > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(number));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= number * 0.999);
}

// Breaks the line where nothing is known.
function path(values, x, y) {
  let text = '';
  let isOpen = false;
  values.forEach((value, at) => {
    if (value === null || value === undefined) {
      isOpen = false;
      return;
    }
    // Round ends make a dot of one that stands alone.
    text += `${isOpen ? 'L' : 'M'}${x(at).toFixed(1)} ${y(value).toFixed(1)}${isOpen ? '' : 'h0'}`;
    isOpen = true;
  });
  return text;
}

const known = (values) => values.filter((value) => value !== null && value !== undefined);
const last = (values) => (values.length ? values[values.length - 1] : null);

class LineChart {
  // series: [name, class, title] of each; format: a value as words; suffix: after those, off the axis.
  constructor(host, title, series, format, suffix = '') {
    Object.assign(this, { host, title, series, format, suffix, samples: {}, step: 1, cursor: null });
    this.legend = make('div', { class: 'legend' });
    this.svg = draw('svg', { role: 'img', tabindex: '0', 'aria-label': title });
    this.table = make('details', {}, make('summary', {}, 'As a table'));
    host.append(this.legend, this.svg, this.table);
    this.svg.addEventListener('pointermove', (event) => this.point(event.offsetX));
    this.svg.addEventListener('pointerleave', () => this.move(null));
    this.svg.addEventListener('blur', () => this.move(null));
    this.svg.addEventListener('keydown', (event) => this.key(event));
    this.table.addEventListener('toggle', () => this.tabulate());
    new ResizeObserver(() => this.render()).observe(host);
  }

  // step: the seconds from one sample to the next.
  show(samples, step) {
    if (step !== this.step) this.cursor = null;
    Object.assign(this, { samples, step });
    this.render();
    this.tabulate();
  }

  get width() {
    return Math.max(this.svg.clientWidth, 120);
  }

  // Samples from the left edge to the right one.
  get span() {
    return Math.max(this.values(this.series[0][0]).length, NARROW) - 1;
  }

  // Where a sample stands, so many before the newest, which is at the right edge.
  x(back) {
    return this.width - (back / this.span) * (this.width - LEFT);
  }

  values(name) {
    return this.samples[name] || [];
  }

  words(value) {
    return value === null || value === undefined ? '–' : this.format(value) + this.suffix;
  }

  point(offset) {
    const length = this.values(this.series[0][0]).length;
    const back = Math.round(((this.width - offset) / (this.width - LEFT)) * this.span);
    this.move(back >= 0 && back < length ? back : null);
  }

  key(event) {
    const steps = { ArrowLeft: 1, ArrowRight: -1, Home: HOUR_WINDOW, End: -HOUR_WINDOW };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const length = this.values(this.series[0][0]).length;
    this.move(Math.min(Math.max((this.cursor ?? 0) + steps[event.key], 0), Math.max(length - 1, 0)));
  }

  // back: how many samples before the newest, or null.
  move(back) {
    this.cursor = back;
    this.render();
  }

  render() {
    const all = this.series.flatMap(([name]) => known(this.values(name)));
    this.host.classList.toggle('blank', !all.some(Boolean));
    const top = ceiling(Math.max(...all, 0));
    const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - BOTTOM - TOP);
    const parts = [0, 0.5, 1].flatMap((share) => this.rule(y(share * top), share * top));
    parts.push(...this.times());
    for (const [name, kind] of this.series) {
      const values = this.values(name);
      parts.push(draw('path', { class: `line ${kind}`, d: path(values, (at) => this.x(values.length - 1 - at), y) }));
    }
    if (this.cursor !== null) {
      const x = this.x(this.cursor);
      parts.push(draw('line', { class: 'cursor', x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM }));
    }
    this.svg.setAttribute('viewBox', `0 0 ${this.width} ${HEIGHT}`);
    this.svg.replaceChildren(...parts);
    this.describe();
  }

  rule(y, value) {
    return [
      draw('line', { class: 'rule', x1: LEFT, x2: this.width, y1: y, y2: y }),
      draw('text', { class: 'axis', x: LEFT - 6, y: y + 4, 'text-anchor': 'end' }, this.format(value)),
    ];
  }

  times() {
    const seconds = this.span * this.step;
    const mark = MARKS.find((each) => seconds / each <= MOST_MARKS) || MARKS[MARKS.length - 1];
    const texts = [];
    for (let ago = mark; this.x(ago / this.step) > LEFT + 12; ago += mark) {
      texts.push(draw('text', { class: 'axis', x: this.x(ago / this.step), y: HEIGHT - 3, 'text-anchor': 'middle' }, `−${round(ago)}`));
    }
    return texts;
  }

  describe() {
    const back = this.cursor ?? 0;
    const items = this.series.map(([name, kind, title]) => {
      const values = this.values(name);
      return [kind, title, this.words(values[values.length - 1 - back])];
    });
    this.legend.replaceChildren(
      ...items.map(([kind, title, value]) => make('span', {}, make('i', { class: kind }), make('span', { class: 'name' }, `${title} `), value)),
      make('span', { class: 'when' }, back ? `${round(back * this.step)} ago` : 'now'),
    );
    this.svg.setAttribute('aria-label', `${this.title}: ${items.map(([, title, value]) => `${title} ${value}`).join(', ')}`);
  }

  tabulate() {
    if (!this.table.open) return;
    const length = this.values(this.series[0][0]).length;
    const rows = [];
    for (let back = 0; back < length; back += 10) rows.push(back);
    const columns = [['Ago', '', (back) => (back ? round(back * this.step) : 'now')]];
    for (const [name, , title] of this.series) {
      columns.push([title, 'number', (back) => this.words(this.values(name)[length - 1 - back])]);
    }
    this.table.replaceChildren(this.table.firstChild, scrolled(table(this.title, columns, rows)));
  }
}

class ColumnChart {
  constructor(host, title) {
    Object.assign(this, { host, title });
    this.legend = make('div', { class: 'legend' }, '–'); // not known yet
    this.svg = draw('svg', { role: 'img', 'aria-label': title });
    this.table = make('details', {}, make('summary', {}, 'As a table'));
    host.append(this.legend, this.svg, this.table);
    this.columns = [];
    this.svg.addEventListener('pointermove', (event) => this.point(event.offsetX));
    this.svg.addEventListener('pointerleave', () => say(this.legend, this.total));
    this.table.addEventListener('toggle', () => this.tabulate());
    new ResizeObserver(() => this.render()).observe(host);
  }

  // columns: [value, words] of each; ends: what stands below the first and the last.
  show(columns, ends, total) {
    Object.assign(this, { columns, ends, total });
    this.render();
    this.tabulate();
  }

  get width() {
    return Math.max(this.svg.clientWidth, 120);
  }

  point(offset) {
    const at = Math.floor(((offset - LEFT) / (this.width - LEFT)) * this.columns.length);
    const column = this.columns[at];
    say(this.legend, column ? `${column[1]}: ${count(column[0])}` : this.total);
  }

  render() {
    this.host.classList.toggle('blank', !this.columns.some(([value]) => value));
    if (!this.columns.length) return;
    const top = ceiling(Math.max(...this.columns.map(([value]) => value)));
    const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - BOTTOM - TOP);
    const step = (this.width - LEFT) / this.columns.length;
    const parts = [0, 0.5, 1].flatMap((share) => LineChart.prototype.rule.call({ width: this.width, format: count }, y(share * top), share * top));
    this.columns.forEach(([value], at) => {
      const height = value ? Math.max(HEIGHT - BOTTOM - y(value), 1.5) : 0;
      parts.push(draw('rect', { class: 'column', x: LEFT + at * step + 1, y: HEIGHT - BOTTOM - height, width: Math.max(step - 2, 1), height, rx: 1.5 }));
    });
    const [first, end] = this.ends;
    parts.push(draw('text', { class: 'axis', x: LEFT, y: HEIGHT - 3 }, first));
    parts.push(draw('text', { class: 'axis', x: this.width, y: HEIGHT - 3, 'text-anchor': 'end' }, end));
    this.svg.setAttribute('viewBox', `0 0 ${this.width} ${HEIGHT}`);
    this.svg.replaceChildren(...parts);
    this.svg.setAttribute('aria-label', `${this.title}: ${this.total}`);
    say(this.legend, this.total);
  }

  tabulate() {
    if (!this.table.open) return;
    const columns = [['When', '', ([, words]) => words], ['Elements', 'number', ([value]) => count(value)]];
    this.table.replaceChildren(this.table.firstChild, scrolled(table(this.title, columns, this.columns)));
  }
}

// A line without axes, for a tile.
function sparkline(svg, values) {
  const width = 120;
  const height = 26;
  const top = Math.max(...known(values), 0) || 1;
  const x = (at) => width - ((values.length - 1 - at) / Math.max(values.length - 1, NARROW - 1)) * width;
  const y = (value) => height - 2 - (value / top) * (height - 4);
  const line = path(values, x, y);
  const end = x(values.findLastIndex((value) => value !== null)).toFixed(1);
  svg.firstChild.setAttribute('d', line && values.length > 1 ? `${line}L${end} ${height}L${x(0).toFixed(1)} ${height}Z` : '');
  svg.lastChild.setAttribute('d', line);
}
