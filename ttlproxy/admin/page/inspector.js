// The inspector: a list of keys, and the elements of one of them, a page at a time. Its state is
// in the page's address: #match=PATTERN&key=KEY&db=NUMBER.
const RENEW_MS = 5000;
const KIND = { hash: 'field', set: 'member', zset: 'member', list: 'element' };
// Only these make a pattern: names of keys often have brackets.
const WILDCARD = /[*?]/;

let asked = null;
let listens = { address: '', redis_cli: '' };

byId('inspect').addEventListener('submit', (event) => {
  event.preventDefault();
  const text = byId('key').value;
  const place = addressOf({ [WILDCARD.test(text) ? 'match' : 'key']: text, db: byId('db').value || '0' });
  if (place === location.hash) inspect();
  else location.hash = place;
});
window.addEventListener('hashchange', () => asked && location.hash !== '#main' && inspect());

// Empty parts, and 0, are left out.
function addressOf(parts) {
  const known = Object.entries(parts).filter(([name, value]) => value && !(name === 'db' && value === '0'));
  return `#${new URLSearchParams(known)}`;
}

function beginToInspect() {
  if (!asked) inspect();
}

function inspect() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const before = asked;
  asked = { key: parts.get('key') || '', match: parts.get('match') || '', db: parts.get('db') || '0' };
  byId('key').value = asked.match || asked.key;
  byId('db').value = asked.db;
  byId('picked').hidden = !asked.key;
  say(byId('picked-key'), asked.key);
  if (!before || before.match !== asked.match || before.db !== asked.db || !asked.key) keys.open({ match: asked.match, db: asked.db });
  elements.open(asked.key && { key: asked.key, db: asked.db });
}

async function answerTo(question) {
  try {
    const response = await fetch(`inspect.json?${new URLSearchParams(question)}`, { cache: 'no-store', signal: AbortSignal.timeout(5000) });
    return response.ok ? await response.json() : { error: (await response.text()).trim() };
  } catch {
    return { error: 'the proxy did not answer' };
  }
}

// Pages of rows. They are asked for again every few seconds: sooner if something falls due, and after an error.
class Pages {
  constructor(host, said, rows, summary, build) {
    Object.assign(this, { host, said, rows, summary, build, question: null, offsets: [0], timer: 0 });
  }

  open(question) {
    this.question = question;
    if (question) say(byId(this.said), 'Looking …');
    this.turn([0]);
  }

  // offsets: where the pages begin, up to the one that is shown.
  turn(offsets) {
    this.offsets = offsets;
    this.look();
  }

  async look() {
    clearTimeout(this.timer);
    const { question, offsets } = this;
    if (!question) return;
    let wait = RENEW_MS;
    if (!document.hidden) {
      const answer = await answerTo({ ...question, offset: String(offsets.at(-1)) });
      if (this.question !== question || this.offsets !== offsets) return;
      this.present(answer);
      wait = answer.error ? EVERY_MS : this.untilNext(answer);
    }
    this.timer = setTimeout(() => this.look(), wait);
  }

  // A row that is due goes soon after. One that stays, such as a parked key, is no reason to ask more often.
  untilNext(answer) {
    const times = answer[this.rows].map((row) => row.ms_left).filter((ms) => ms > 0);
    return Math.max(Math.min(...times, RENEW_MS), EVERY_MS);
  }

  present(answer) {
    const host = byId(this.host);
    host.classList.toggle('old', Boolean(answer.error));
    say(byId(this.said), answer.error ? notKnown(answer.error) : this.summary(answer));
    if (answer.error) return;
    const rows = answer[this.rows];
    const lasting = { ...answer, [this.rows]: rows.map(({ ms_left: ms, ...row }) => row), key_ms_left: null, question: this.question };
    fill(host, lasting, () => {
      const parts = document.createDocumentFragment();
      if (rows.length) parts.append(scrolled(this.build(answer)));
      if (answer.next !== null || this.offsets.length > 1) parts.append(this.pager(answer));
      else if (!rows.length && this.rows === 'keys' && !this.question.match) parts.append(firstSteps());
      return parts;
    });
  }

  pager(answer) {
    const step = (title, offsets) => {
      const button = make('button', { type: 'button' }, title);
      button.disabled = !offsets;
      button.addEventListener('click', () => this.turn(offsets));
      return button;
    };
    const { offsets } = this;
    const first = (offsets.length - 1) * 50;
    const shown = answer[this.rows].length;
    const total = this.question.match ? '' : ` of ${count(answer.timed ?? answer.managed)}`;
    return make(
      'div',
      { class: 'pager' },
      step('Earlier', offsets.length > 1 && offsets.slice(0, -1)),
      step('Later', answer.next !== null && [...offsets, answer.next]),
      make('span', { class: 'quiet' }, shown && !(this.question.match && offsets.length > 1) ? `${count(first + 1)} to ${count(first + shown)}${total}` : ''),
    );
  }
}

// Times run on between two answers.
function timeLeft({ ms_left: ms }) {
  const time = make('span', { 'data-until': String(performance.now() + ms) }, left(ms));
  return time;
}

function left(ms) {
  return ms < 0 ? 'due' : round(Math.ceil(ms / 1000));
}

setInterval(() => {
  for (const time of document.querySelectorAll('[data-until]')) say(time, left(Number(time.dataset.until) - performance.now()));
}, 1000);

const at = (ms) => new Date(ms).toISOString().replace('T', ' ').replace(/\.\d+Z/, '');

const cutName = (text, row) => (row.cut ? `${text}… (${bytes(row.length)})` : text);

// A key's name leads to its elements, unless it is cut.
function keyLink(row, db, match = '') {
  if (row.cut) return cutName(row.name, row);
  return make('a', { href: addressOf({ match, key: row.name, db: String(db) }), class: 'mono' }, row.name);
}

function keysSummary(answer) {
  const { db, match } = asked;
  const where = db === '0' ? '' : ` in database ${db}`;
  if (!answer.managed) return `No key has deadlines${where}.`;
  if (!match) return `${plural(answer.managed, 'key')}${where}, the next due first.`;
  if (answer.keys.length) return `Keys${where} that match ${match}, the next due first.`;
  if (answer.next !== null) return `None of the first ${count(answer.next)} keys${where} matches ${match}.`;
  return `No key with deadlines${where} matches ${match}.`;
}

function keysTable(answer) {
  const { db, match } = asked;
  const named = (row) => (row.is_deferred ? make('span', {}, 'commands deferred for ', make('span', { class: 'mono' }, cutName(row.name, row))) : keyLink(row, db, match));
  return table('Keys with deadlines', [
    ['Key', 'mono', named],
    ['Next deadline in', 'number', timeLeft],
  ], answer.keys);
}

function firstSteps() {
  const cli = listens.redis_cli;
  const commands = ['HSET cart:1 apple 2 pear 1', 'HEXPIREFIELD cart:1 apple 60'].map((command) => `${cli} ${command}`);
  const steps = make('div', { class: 'steps' });
  steps.append(make('p', {}, 'Connect your programs to ttlproxy in place of Redis. To see a key here, type this on the machine of ttlproxy:'));
  steps.append(...commands.map((command) => make('p', {}, copyable(command))));
  return steps;
}

function elementsSummary(answer) {
  if (answer.type === 'none') return 'There is no such key.';
  const all = answer.size === null ? '' : ` of ${count(answer.size)}`;
  const words = `A ${answer.type}: ${count(answer.timed)}${all} ${KIND[answer.type] || 'element'}s have a deadline.`;
  return answer.key_ms_left === null ? words : `${words} The key itself expires in ${left(answer.key_ms_left)}.`;
}

function elementsTable(answer) {
  const noun = KIND[answer.type] || 'element';
  const columns = [
    [noun[0].toUpperCase() + noun.slice(1), 'mono', (row) => cutName(row.name, row)],
    ['Time left', 'number', timeLeft],
    ['Deadline (UTC)', 'number', (row) => at(row.deadline_ms)],
  ];
  if (answer.elements.some((row) => 'value' in row)) {
    const cut = (row) => row.value_length > 256;
    columns.splice(1, 0, [answer.type === 'zset' ? 'Score' : 'Value', 'mono', (row) => ('value' in row ? cutName(row.value, { cut: cut(row), length: row.value_length }) : '–')]);
  }
  return table(`Deadlines of ${answer.key}`, columns, answer.elements);
}

const keys = new Pages('keys', 'keys-said', 'keys', keysSummary, keysTable);
const elements = new Pages('inspected', 'inspect-said', 'elements', elementsSummary, elementsTable);
