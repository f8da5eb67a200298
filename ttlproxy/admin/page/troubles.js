// The troubles that an operator on call looks for: parked keys, clients and their ends, and what waits in Redis.
const HIDDEN = 'Names and addresses are shown only where the inspector is: see --inspector.';

const PARKED = {
  wrongtype: 'A key of another type is in the way',
  noperm: "The proxy's user lacks a right",
  oom: 'Redis is out of memory',
  unreachable: 'Another master cannot be reached',
  other: 'Redis refuses to reap it',
};
const ENDED = {
  client: 'closed by the client',
  redis: 'closed by Redis',
  refused: 'refused: no Redis, or too many clients',
  held: 'waited longer than hold_max',
  drained: 'the proxy was stopping',
  cut_off: 'cut off: the proxy was stopping, and drain_max over',
  moved: 'the server, or its role, was another one',
  error: 'internal error, see the log',
  idle: 'idle for longer than timeout',
  stalled: 'read no replies for stall_timeout',
  buffers: 'all clients together were over max_buffer_bytes',
};
// Nobody should have to look at these more closely.
const ORDINARY = ['client', 'drained', 'idle'];

function listItem(parts, kind = '') {
  return make('li', { class: kind }, ...parts);
}

function parkedKey({ name, cut, length, db, is_deferred: isDeferred }) {
  const where = db ? ` in database ${db}` : '';
  if (isDeferred) return make('span', {}, 'commands deferred for ', make('span', { class: 'mono' }, cutName(name, { cut, length })), where);
  return make('span', {}, keyLink({ name, cut, length }, db), where);
}

function parkedGroup({ why, said, fix, keys, count: size }) {
  const parts = [make('strong', {}, PARKED[why] || why), `: ${plural(size, 'key')}`];
  if (said) parts.push(make('br'), said);
  if (keys.length) {
    const names = keys.flatMap((key, at) => [at ? ', ' : '', parkedKey(key)]);
    parts.push(make('br'), make('span', { class: 'keys' }, ...names));
  }
  if (fix) parts.push(make('br'), copyable(fix));
  return listItem(parts, 'bad');
}

const nextTry = (ms) => (ms ? `in ${duration(ms / 1000)}` : 'now');

// Times change with each answer. They stand in the note, so that a command can be selected below.
function parkedNote({ all, leads, groups }, isShown) {
  const keys = groups.flatMap((group) => group.keys);
  const listed = groups.reduce((sum, group) => sum + group.count, 0);
  const some = all > listed ? `${count(listed)} of ${plural(all, 'key')} that` : `${plural(all, 'key')} that`;
  const words = [`${some} Redis does not let the proxy reap. Each is tried again by itself, after 30 s at the latest.`];
  if (keys.length) words.push(`Refused ${plural(Math.max(...keys.map((key) => key.failures)), 'time')} so far, next try ${nextTry(Math.min(...keys.map((key) => key.again_ms)))}.`);
  if (!leads) words.push('Another proxy reaps now: its page shows what is parked there.');
  if (!isShown) words.push(HIDDEN);
  return words.join(' ');
}

function showParked(parked, isShown) {
  byId('parked-card').hidden = !parked.all;
  if (!parked.all) return;
  say(byId('parked-note'), parkedNote(parked, isShown));
  const lasting = parked.groups.map((group) => ({ ...group, keys: group.keys.map(({ failures, again_ms: again, ...key }) => key) }));
  fill(byId('parked'), lasting, (groups) => {
    const parts = document.createDocumentFragment();
    parts.append(...groups.map(parkedGroup));
    return parts;
  });
}

function showEnded(ended) {
  const isTrouble = ({ label, hour }) => hour && !ORDINARY.includes(label);
  const sum = (rows) => rows.reduce((all, row) => all + row.hour, 0);
  const troubles = sum(ended.filter(isTrouble));
  showCard('ended', ended.length, 'no connection has ended', `${count(sum(ended))} in the last hour${troubles ? `, ${count(troubles)} of them not as usual` : ''}`);
  fill(byId('ended'), ended, (rows) => {
    return table('Connections that ended', [
      ['Why', 'grow', (row) => make('span', { class: isTrouble(row) ? 'warn' : '' }, ENDED[row.label] || row.label)],
      ['Last hour', 'number', (row) => count(row.hour)],
      ['In all', 'number', (row) => count(row.all)],
    ], rows);
  });
}

function clientsNote(clients, isShown) {
  if (!clients.all) return '';
  const states = Object.entries(clients.states).map(([state, number]) => `${count(number)} ${state}`);
  const words = [`${plural(clients.all, 'client')}: ${states.join(', ')}.`];
  words.push(clients.buffered ? `${bytes(clients.buffered)} are kept for them.` : 'Nothing is kept for them.');
  if (clients.rows.length < clients.all && isShown) words.push(`Below are ${count(clients.rows.length)}: those with the largest buffers, then the oldest.`);
  if (!isShown) words.push(HIDDEN);
  return words.join(' ');
}

function showClients(clients, isShown) {
  showCard('clients', clients.all, 'no client is connected');
  say(byId('clients-note'), clientsNote(clients, isShown));
  fill(byId('clients'), clients.rows || [], (rows) => {
    if (!rows.length) return document.createDocumentFragment();
    const columns = [
      ['Client', '', (row) => String(row.number)],
      ['Address', 'mono', (row) => row.address],
      ['State', '', (row) => row.state],
      ['Connected for', 'number', (row) => duration(row.age_s)],
      ['Database', 'number', (row) => (row.db === null ? '–' : String(row.db))],
      ['Not read by it', 'number', (row) => bytes(row.unread)],
      ['Kept in all', 'number', (row) => bytes(row.buffered)],
    ];
    const said = [['Name', 'mono', 'name'], ['User', 'mono', 'user'], ['Library', '', 'library']].filter(([, , what]) => rows.some((row) => row[what]));
    columns.splice(2, 0, ...said.map(([title, kind, what]) => [title, kind, (row) => row[what] || '–']));
    if (rows.some((row) => row.worker)) columns.splice(1, 0, ['Worker', '', (row) => String(row.worker)]);
    return scrolled(table('Each client', columns, rows));
  });
}

function amount({ count: number, keys, exact }) {
  return `${exact ? '' : '≈ '}${count(number)} for ${plural(keys, 'key')}`;
}

function waitingNote(found, isShown, more) {
  if (!found.count) return '';
  const words = [found.exact ? '' : 'Estimated from some of them, picked at random.', isShown ? more : HIDDEN];
  return words.filter(Boolean).join(' ');
}

function showWaiting(waiting, isShown) {
  for (const id of ['deferred', 'kept']) showAge(id, waiting);
  const { deferred, kept } = waiting;
  if (waiting.error) {
    for (const id of ['deferred', 'kept']) say(byId(`${id}-note`), notKnown(waiting.error));
  }
  if (!kept) {
    empties.kept = empties.deferred = '';
    return;
  }
  showCard('deferred', deferred.count, 'no command is deferred', amount(deferred));
  showCard('kept', kept.count, 'no element is kept', amount(kept));
  say(byId('deferred-note'), waitingNote(deferred, isShown, 'The next ones:'));
  say(byId('kept-note'), waitingNote(kept, isShown, 'They stay until TAKE fetches them. The keys with most:'));
  fill(byId('deferred'), [deferred.count, deferred.next], ([, next]) => {
    return next.length ? table('Deferred commands that are due next', [
      ['Command', 'mono', (row) => `${row.command} ${cutName(row.key, row)}${row.words > 2 ? ' …' : ''}`],
      ['ID', 'mono', (row) => row.id],
      ['In', 'number', (row) => (row.ms_left ? duration(row.ms_left / 1000) : 'due')],
    ], next) : document.createDocumentFragment();
  });
  fill(byId('kept'), [kept.count, kept.keys_shown], ([, keys]) => {
    return keys.length ? table('Keys with kept elements', [
      ['Key', 'mono', (row) => cutName(row.key, row)],
      ['Elements', 'number', (row) => count(row.count)],
      ['The next, due since', 'number', (row) => duration(row.since_ms / 1000)],
    ], keys) : document.createDocumentFragment();
  });
}

// Redis's own time where it is known; else a sample of round trips, which is marked.
function scriptTime({ mean_ms: mean, isSample }) {
  return isSample && mean !== null ? `≈ ${milliseconds(mean)}` : milliseconds(mean);
}

// A script's name, which a narrow column breaks behind an underscore.
function scriptName(name) {
  const parts = name.split(/(?<=_)/);
  return make('span', { class: 'mono' }, ...parts.flatMap((part) => [part, make('wbr', {})]));
}

function showScripts(evals, reaps, scripts) {
  const sums = [['All in Redis', evals], ['Reaps', reaps]].filter(([, calls]) => calls);
  const rows = [
    ...sums.map(([title, calls]) => ({ title, ...calls })),
    ...scripts.filter(({ script }) => script !== 'reap').map((calls) => ({ ...calls, title: calls.script, failed: null, isSample: true })),
  ];
  showCard('scripts', rows.length, 'no script was called', count(rows.length));
  fill(byId('scripts'), rows, (all) => folded('Script calls', [
    ['Calls of', '', (row) => (row.isSample ? scriptName(row.title) : row.title)],
    ['Calls', 'number', (row) => count(row.calls)],
    ['Each takes', 'number', scriptTime],
    ['Failed', 'number', (row) => count(row.failed)],
  ], all, 'scripts'));
}

function programsNote({ programs }, masters) {
  const words = [`As ${masters.length ? 'the first master' : 'Redis'} says: through this proxy, through others, or without one.`];
  if (programs && programs.all > programs.rows.length) words.push(`Below are ${count(programs.rows.length)} of ${count(programs.all)} programs.`);
  if (!programs) words.push('They are too many to be listed.');
  return words.join(' ');
}

function showPrograms(connected, isShown, masters) {
  showAge('programs', connected);
  if (connected.error) say(byId('programs-note'), notKnown(connected.error));
  if (connected.error || !connected.proxies) return;
  const { programs } = connected;
  showCard('programs', isShown && (!programs || programs.all), isShown ? 'no program is connected to Redis' : '', programs ? count(programs.all) : plural(connected.connections, 'connection'));
  say(byId('programs-note'), programsNote(connected, masters));
  fill(byId('programs'), programs ? programs.rows : [], (rows) => (rows.length ? folded('Programs at this Redis', [
    ['Name', 'mono', (row) => row.name || '–'],
    ['User', 'mono', (row) => row.user || '–'],
    ['Library', '', (row) => row.library || '–'],
    ['Connected from', 'mono', (row) => `${row.hosts.join(', ')}${row.more_hosts ? ` and ${plural(row.more_hosts, 'more host')}` : ''}`],
    ['Connections', 'number', (row) => count(row.connections)],
  ], rows, 'programs') : document.createDocumentFragment()));
}

// Pages of other proxies are believed to be at the same port as this one, unless only its own machine reaches it.
function showProxies({ proxies, error }, admin) {
  if (!proxies && !error) return;
  fill(byId('proxies'), [proxies, admin], () => {
    const parts = document.createDocumentFragment();
    if (!proxies || proxies.all < 2) {
      parts.append(proxies?.all ? 'This is the only proxy of this Redis.' : 'How many proxies this Redis has is not known.');
      return parts;
    }
    parts.append(`${plural(proxies.all, 'proxy').replace('proxys', 'proxies')} of this Redis, this one among them`, proxies.hosts.length ? ', at ' : '.');
    const links = proxies.hosts.map((host) => (admin ? make('a', { href: `//${host}:${admin}/` }, host) : host));
    parts.append(...links.flatMap((link, index) => [index ? ', ' : '', link]), links.length ? (admin ? '. The links are right if their pages are at the same port.' : '.') : '');
    return parts;
  });
}
