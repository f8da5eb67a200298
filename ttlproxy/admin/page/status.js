// Asks for the metrics once a second while somebody looks, and shows them.
const EVERY_MS = 1000;
const PATIENCE_MS = 4000;
// The proxy knows the clocks of Redis no better than this.
const CLOCK_MS = 50;

const TILES = [
  // title, series, words of a value, what stands below
  ['Clients', 'clients', (n) => [count(n), 'connected'], () => `${count(latest('accepted'))} new a second`],
  ['Requests', 'requests', (n) => [count(n), '/s'], () => (latest('requests') ? `${share(latest('forwarded'), latest('requests'))} unchanged` : '')],
  ['Round trip', 'round_trip_ms', (n) => unit(milliseconds(n)), () => 'the link to Redis'],
  ['Managed keys', 'managed_keys', (n) => [count(n), ''], (status) => elementsBelow(status.survey)],
  ['Reaped', 'reaped', (n) => [count(n), '/s'], () => 'elements'],
  ['Overdue', 'overdue', (n) => unit(n === null ? '–' : plural(n, 'key')), overdueBelow],
];
const samples = {};
const hours = {};
const charts = {};
let life = '';
let number = 0;
let hourNumber = 0;
let survey = null;
let misses = 0;
let lost = null;
let timer = 0;
let isAsking = false;

const latest = (name) => last(samples[name] || []);

function unit(words) {
  const [figure, ...rest] = words.split(' ');
  return [figure, rest.join(' ')];
}

function elementsBelow(found) {
  if (!found || !found.types) return '';
  return `${isEstimate(found) ? '≈ ' : ''}${plural(found.elements, 'element')}`;
}

function overdueBelow() {
  const late = latest('oldest_overdue_ms');
  if (late === null) return '';
  return late ? `the oldest for ${milliseconds(late)}` : 'nothing is overdue';
}

const share = (part, all) => `${Math.round((100 * part) / all)} %`;

const isEstimate = (found) => found.sampled < found.keys;

function buildTiles() {
  for (const [title, name] of TILES) {
    const spark = draw('svg', { viewBox: '0 0 120 26', preserveAspectRatio: 'none', 'aria-hidden': 'true' }, draw('path', { class: 'area' }), draw('path', { class: 'line first' }));
    const figure = make('p', { class: 'value' }, make('span', {}, '–'), make('span', { class: 'unit' }));
    byId('tiles').append(make('div', { class: 'tile', id: `tile-${name}` }, make('h3', {}, title), figure, make('p', { class: 'quiet' }, '\u00a0'), spark));
  }
}

function buildCharts() {
  charts.throughput = new LineChart(byId('throughput'), 'Throughput', [['bytes_in', 'first', 'to Redis'], ['bytes_out', 'second', 'to clients']], bytes, '/s');
  charts.latency = new LineChart(byId('latency'), 'Latency', [['round_trip_ms', 'first', 'round trip'], ['loop_lag_ms', 'second', 'event loop']], milliseconds);
  charts.lag = new LineChart(byId('lag'), 'Reaper lag', [['lag_p50_ms', 'first', 'half within'], ['lag_p99_ms', 'second', '99 of 100 within']], milliseconds);
  charts.deadlines = new ColumnChart(byId('deadlines'), 'Deadlines coming up');
}

function showTiles(status) {
  for (const [, name, words, below] of TILES) {
    const [, figure, note, spark] = byId(`tile-${name}`).children;
    const [value, suffix] = words(latest(name));
    say(figure.firstChild, value);
    say(figure.lastChild, suffix);
    say(note, below(status) || '\u00a0');
    sparkline(spark, (samples[name] || []).slice(-2 * NARROW));
  }
}

// The first words say what is wrong; all of it is told once, below.
function stateOf({ why_not: whyNot, masters }) {
  if (whyNot) return ['bad', whyNot.split(': ')[0]];
  const served = masters.filter((master) => !master.why_not).length;
  return served < masters.length ? ['warn', `serving ${served} of ${masters.length} masters`] : ['good', 'serving'];
}

function upstreamOf({ upstream, masters }) {
  return masters.length ? `a Cluster of ${plural(masters.length, 'master')}` : upstream;
}

function showHead(status) {
  const state = byId('state');
  const [kind, words] = stateOf(status);
  state.className = `state ${kind}`;
  say(byId('state-text'), words);
  say(byId('version'), status.version);
  const facts = [['Redis', upstreamOf(status)], ['up for', duration(status.uptime_s)]];
  if (status.listens.address) facts.unshift(['clients connect to', status.listens.address]);
  fill(byId('facts'), facts, (rows) => {
    const parts = document.createDocumentFragment();
    parts.append(...rows.map(([term, words]) => make('div', {}, make('dt', {}, term), make('dd', {}, words))));
    return parts;
  });
}

// Why parts of the page are old: one cause, told once.
let cause = '';

// Several parts could not be asked for: there is one cause.
function commonError({ survey, slow, waiting, rules, connected }) {
  const errors = [survey, slow, waiting, rules, connected].map((part) => part.error).filter(Boolean);
  return errors.find((error, index) => errors.indexOf(error) < index) || '';
}

const sentence = (words) => words[0].toUpperCase() + words.slice(1);

function showCause(status) {
  const { why_not: whyNot, why_not_s: seconds } = status;
  cause = whyNot || commonError(status);
  byId('cause').hidden = !cause;
  if (!cause) return;
  const since = new Date(Date.now() - 1000 * seconds).toLocaleTimeString();
  say(byId('cause'), whyNot ? `${sentence(whyNot)}. It began ${seconds < 2 ? 'just now' : `${duration(seconds)} ago, at ${since}`}.` : `Some of this page is old: ${cause}.`);
}

function notKnown(error) {
  return cause ? 'Not known now: see above. What is grey is older.' : `Not known now: ${error}.`;
}

// Cards without content are not shown; one sentence says what there is none of.
const empties = {};

// sum: what stands beside the title of a card that is folded.
function showCard(name, hasContent, words, sum = '') {
  byId(`${name}-card`).hidden = !hasContent;
  empties[name] = hasContent ? '' : words;
  if (sum) say(byId(`${name}-sum`), sum);
}

function showEmpties({ survey, slow, waiting, rules, connected }) {
  const unknown = Object.entries({ types: survey, slow, deferred: waiting, kept: waiting, rules, programs: connected }).filter(([, answer]) => answer.error);
  for (const [name] of unknown) {
    empties[name] = '';
    if (cause) continue;
    byId(`${name}-card`).hidden = false;
    say(byId(`${name}-sum`), 'not known now');
  }
  const words = Object.values(empties).filter(Boolean);
  say(byId('none'), words.length ? `${sentence(words.join(', '))}.` : '');
}

// A part that could not be asked for anew stays as it was, and is seen to be old.
function showAge(id, answer) {
  byId(id).classList.toggle('old', Boolean(answer.error));
}

const estimated = (number) => (number === null ? '–' : `≈ ${count(number)}`);

function sampledNote(found) {
  if (found.error) return notKnown(found.error);
  if (!found.types) return '';
  return isEstimate(found) ? `Keys are counted; elements and types are estimated from ${count(found.sampled)} of ${plural(found.keys, 'key')}, picked at random.` : 'All keys and elements are counted.';
}

function showSurvey(found, reaped, { deferred = {} }) {
  say(byId('types-note'), sampledNote(found));
  showAge('types', found);
  showAge('deadlines', found);
  if (found.error || !found.types) return;
  showDeadlines(found);
  const rows = typeRows(found, reaped, deferred);
  showCard('types', rows.length, 'no key has deadlines', `${plural(found.keys, 'key')}, ${elementsBelow(found)}`);
  fill(byId('types'), rows, (types) => {
    const most = Math.max(...types.map((type) => type.elements), 1);
    return table('Managed keys and elements by type', [
      ['Type', '', (type) => type.type],
      ['Keys', 'number', (type) => (type.isExact ? count : estimated)(type.keys)],
      ['Elements', 'number', (type) => (type.isExact ? count : estimated)(type.elements)],
      [make('span', { class: 'unseen' }, 'Share'), 'barred', (type) => bar(type.elements / most)],
      ['Reaped', 'number', (type) => count(type.reaped)],
    ], types);
  });
}

// The elements that are there now, and those that this proxy has removed since it started, by type. Deferred commands may be counted.
function typeRows(found, reaped, deferred) {
  const isExact = !isEstimate(found);
  const there = new Map((found.types || []).map((type) => [type.type, { ...type, isExact }]));
  if (deferred.exact && deferred.keys) there.set('deferred', { keys: deferred.keys, elements: deferred.count, isExact: true });
  const gone = Object.entries(reaped).filter(([, elements]) => elements).map(([type]) => type);
  const types = [...new Set([...there.keys(), ...gone])].sort();
  const none = isExact ? 0 : null; // of a type that the sample has none of
  return types.map((type) => ({ keys: none, elements: none, isExact, ...there.get(type), type, reaped: reaped[type] ?? null }));
}

const SPAN_WORDS = { minute: ['in 1 min', 1000, 's'], hour: ['in 1 h', 60000, 'min'], day: ['in 1 day', 3600000, 'h'] };

function showDeadlines(found) {
  const span = document.querySelector('input[name="span"]:checked').value;
  const due = found.deadlines && found.deadlines[span];
  if (!due) return;
  const [end, length, noun] = SPAN_WORDS[span];
  const step = due.step_ms / length;
  const columns = due.elements.map((elements, at) => [elements, `in ${at * step} to ${(at + 1) * step} ${noun}`]);
  const sum = (counts) => counts.reduce((all, each) => all + each, 0);
  const about = isEstimate(found) ? 'about ' : '';
  const all = sum(due.elements);
  const words = all ? `${about}${plural(all, 'element')}, first deadline of ${plural(sum(due.keys), 'key')}` : `nothing is due ${end.replace('in', 'within')}`;
  charts.deadlines.show(columns, ['now', end], words);
  say(byId('deadlines-note'), isEstimate(found) ? `Elements, estimated from ${count(found.sampled)} of ${plural(found.keys, 'key')}.` : 'Elements, counted every few seconds while this page is open.');
}

function slowNote(slow) {
  if (slow.error) return notKnown(slow.error);
  return slow.from_ms === null || slow.from_ms < 0 ? "From Redis's SLOWLOG." : `From Redis's SLOWLOG, which records calls of ${milliseconds(slow.from_ms)} or more.`;
}

function showSlow(slow) {
  say(byId('slow-note'), slowNote(slow));
  showAge('slow', slow);
  if (slow.error || !slow.calls) return;
  showCard('slow', slow.calls.length, slow.from_ms < 0 ? "Redis's SLOWLOG is off" : 'no script call was slow', slow.calls.length && `up to ${milliseconds(slow.calls[0].took_ms)}`);
  fill(byId('slow'), slow.calls, (calls) => {
    return folded('Slowest script calls', [
      ['Script', 'mono', (call) => call.script],
      ['Took', 'number', (call) => milliseconds(call.took_ms)],
      ['Asked by', '', (call) => call.by],
      ['Ago', 'number', (call) => duration(call.ago_s)],
    ], calls, 'calls');
  });
}

// A finding about a parked key is not told again. While Redis is away, findings are old, or say that again.
function showFindings({ findings: all }, age, isServed, { groups = [] }) {
  const isParked = ({ fix }) => fix && groups.some((group) => group.fix.endsWith(fix));
  const findings = all && all.filter((finding) => !isParked(finding));
  byId('findings-card').hidden = !(findings && findings.length && isServed);
  say(byId('findings-note'), `From ttlproxy doctor, ${ago(age)}. It looks once a minute.`);
  const isWell = all && !all.length;
  say(byId('looked'), isWell && isServed ? `ttlproxy doctor found nothing wrong, ${ago(age)}.` : all ? '' : 'ttlproxy doctor has not looked yet.');
  fill(byId('findings'), findings || [], (rows) => {
    const parts = document.createDocumentFragment();
    parts.append(...rows.map((finding) => {
      const words = [make('strong', {}, finding.what), make('br'), finding.why];
      if (finding.fix) words.push(make('br'), copyable(finding.fix));
      return make('li', { class: finding.level === 'error' ? 'bad' : '' }, ...words);
    }));
    return parts;
  });
}

const ago = (seconds) => (seconds < 2 ? 'just now' : `${round(seconds)} ago`);

function showRules({ rules, all, error }) {
  if (error) say(byId('rules-note'), notKnown(error));
  if (!rules) return;
  showCard('rules', rules.length, 'no rule of ONEXPIRE or ONWRITE is set', `${count(all)} of ONEXPIRE and ONWRITE`);
  say(byId('rules-note'), all > rules.length ? `${count(rules.length)} of ${count(all)}, in the order in which they apply.` : 'In the order in which they apply.');
  fill(byId('rules'), rules, (rows) => folded('Rules of ONEXPIRE and ONWRITE', [
    ['Database', '', (rule) => String(rule.db)],
    ['Pattern', 'mono', (rule) => rule.pattern],
    ['Action', 'mono', (rule) => rule.action],
  ], rows, 'rules'));
}

function overdueAt(master) {
  if (master.why_not) return '–';
  return master.overdue_keys ? `${count(master.overdue_keys)}, for ${milliseconds(master.oldest_overdue_ms)}` : '0';
}

function connectionsTo(master) {
  return master.waiting ? `${count(master.connections)}, ${count(master.waiting)} waiting` : count(master.connections);
}

function clockOf(master) {
  if (master.clock_ahead_ms === null) return '–';
  return master.clock_ahead_ms < CLOCK_MS ? 'the same' : `${milliseconds(master.clock_ahead_ms)} ahead`;
}

function showMasters(masters) {
  const card = byId('masters-card');
  if (card.hidden && masters.length) byId('scripts-card').querySelector('details').open = false; // else the page is long
  card.hidden = !masters.length;
  fill(byId('masters'), masters, (all) => scrolled(table('Each master', [
    ['Address', 'mono', (master) => master.address],
    ['State', 'state-of', (master) => make('span', { class: master.why_not ? 'bad' : '' }, master.why_not || 'served')],
    ['Slots', 'number', (master) => count(master.slots)],
    ['Managed keys', 'number', (master) => count(master.managed_keys)],
    ['Overdue', 'number', overdueAt],
    ['Clock', 'number', clockOf],
    ['Round trip', 'number', (master) => (master.why_not ? '–' : milliseconds(master.round_trip_ms))],
    ['Connections', 'number', connectionsTo],
  ], all)));
}

function showWorkers(workers) {
  byId('workers-card').hidden = workers.length < 2;
  fill(byId('workers'), workers, (all) => table('Workers', [
    ['Process', '', (worker) => String(worker.pid)],
    ['Clients', 'number', (worker) => count(worker.clients)],
    ['State', '', (worker) => worker.why_not_ready || 'serving'],
  ], all));
}

// New samples go behind those that are there; those of another life replace them.
function keep(status) {
  const isSame = status.life === life;
  for (const [kept, series, most] of [[samples, status.series, WINDOW], [hours, status.hour.series, HOUR_WINDOW]]) {
    for (const [name, values] of Object.entries(series)) {
      kept[name] = (isSame ? kept[name] || [] : []).concat(values).slice(-most);
    }
  }
  life = status.life;
  number = status.last;
  hourNumber = status.hour.last;
}

const back = () => document.querySelector('input[name="back"]:checked').value;

function showCharts() {
  const isHour = back() === 'hour';
  say(byId('span-note'), isHour ? 'One point for ten seconds: rates are their mean; round trips and overdue keys their highest.' : 'One point a second.');
  for (const name of ['throughput', 'latency', 'lag']) charts[name].show(isHour ? hours : samples, isHour ? HOUR_STEP : 1);
}

function show(status) {
  keep(status);
  survey = status.survey;
  listens = status.listens;
  showHead(status);
  showCause(status);
  showTiles(status);
  showSurvey(status.survey, status.reaped, status.waiting);
  showParked(status.parked, status.inspector);
  showEnded(status.ended);
  showClients(status.clients, status.inspector);
  showWaiting(status.waiting, status.inspector);
  showScripts(status.slow.evals, status.reaps, status.scripts);
  showSlow(status.slow);
  showPrograms(status.connected, status.inspector, status.masters);
  showProxies(status.connected, status.admin_port);
  showFindings(status.findings, status.findings_age_s, !status.why_not, status.parked);
  showRules(status.rules);
  showMasters(status.masters);
  showWorkers(status.workers);
  byId('inspector').hidden = !status.inspector;
  if (status.inspector) beginToInspect();
  say(byId('values-note'), status.values ? '' : 'Values are not read: see --inspector-values.');
  showCharts();
  showEmpties(status);
}

function answered() {
  misses = 0;
  lost = null;
  byId('gone').hidden = true;
  document.body.classList.remove('stale');
}

// One lost answer is nothing to speak of.
function unanswered() {
  misses += 1;
  lost = lost || new Date();
  if (misses < 2) return;
  document.body.classList.add('stale');
  byId('state').className = 'state bad';
  say(byId('state-text'), 'no answer');
  byId('gone').hidden = false;
  say(byId('gone'), `ttlproxy has not answered since ${lost.toLocaleTimeString()}: everything below is from then. Asking again every second.`);
}

async function ask() {
  clearTimeout(timer);
  if (isAsking || document.hidden) return;
  isAsking = true;
  try {
    const query = new URLSearchParams({ life, since: String(number), since_hour: String(hourNumber) });
    const response = await fetch(`status.json?${query}`, { cache: 'no-store', signal: AbortSignal.timeout(PATIENCE_MS) });
    if (!response.ok) throw new Error(String(response.status));
    const status = await response.json();
    answered();
    show(status);
  } catch (trouble) {
    if (!(trouble instanceof TypeError || trouble instanceof DOMException || trouble instanceof SyntaxError)) console.error(trouble);
    unanswered();
  }
  isAsking = false;
  timer = setTimeout(ask, EVERY_MS);
}

buildTiles();
buildCharts();
for (const choice of document.querySelectorAll('input[name="span"]')) {
  choice.addEventListener('change', () => survey && showDeadlines(survey));
}
for (const choice of document.querySelectorAll('input[name="back"]')) {
  choice.addEventListener('change', showCharts);
}
document.addEventListener('visibilitychange', ask);
ask();
