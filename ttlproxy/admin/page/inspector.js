// The inspector: one key's elements, or the keys that are due next, a page at a time.
const PAGE = 50;
let inspected = { key: '', db: '0', offset: 0 };
let again = 0;

const KIND = { hash: 'field', set: 'member', zset: 'member', list: 'element' };

byId('inspect').addEventListener('submit', (event) => {
  event.preventDefault();
  inspect(byId('key').value, byId('db').value || '0', 0);
});

function inspect(key, db, offset) {
  inspected = { key, db, offset };
  say(byId('inspect-said'), 'Looking …');
  look();
}

async function answerTo(question) {
  try {
    const response = await fetch(`inspect.json?${new URLSearchParams(question)}`, { cache: 'no-store', signal: AbortSignal.timeout(5000) });
    return await response.json();
  } catch {
    return { error: 'The proxy did not answer.' };
  }
}

// Asks once a second until there is an answer, as the rest of the page does: a silent server may come back.
async function look() {
  clearTimeout(again);
  const question = inspected;
  if (!document.hidden) {
    const answer = await answerTo(question);
    if (inspected !== question) return;
    present(answer);
    if (!answer.error) return;
  }
  again = setTimeout(look, EVERY_MS);
}

function present(answer) {
  const found = byId('inspected');
  say(byId('inspect-said'), answer.error || summary(answer));
  found.replaceChildren();
  if (answer.elements && answer.elements.length) found.append(elements(answer), pager(answer.elements, answer.timed));
  if (answer.keys && answer.keys.length) found.append(dueKeys(answer), pager(answer.keys, answer.managed));
}

function summary(answer) {
  if (answer.keys) {
    return answer.managed ? `${plural(answer.managed, 'key')} with deadlines in database ${inspected.db}, the next due first.` : `No key has deadlines in database ${inspected.db}.`;
  }
  if (answer.type === 'none') return 'There is no such key.';
  const all = answer.size === null ? '' : ` of ${count(answer.size)}`;
  const words = `A ${answer.type}: ${count(answer.timed)}${all} ${KIND[answer.type] || 'element'}s have a deadline.`;
  return answer.key_ms_left === null ? words : `${words} The key itself expires in ${left(answer.key_ms_left)}.`;
}

function left(ms) {
  return ms < 0 ? 'due' : duration(ms / 1000);
}

const at = (ms) => new Date(ms).toISOString().replace('T', ' ').replace('Z', '');

// What is too long is cut by the proxy; the length is that of all of it.
function name(row) {
  return row.cut ? `${row.name}… (${bytes(row.length)})` : row.name;
}

function elements(answer) {
  const noun = KIND[answer.type] || 'element';
  return table(
    `Deadlines of ${answer.key}`,
    [
      [noun[0].toUpperCase() + noun.slice(1), 'mono', name],
      ['Time left', 'number', (row) => left(row.ms_left)],
      ['Deadline (UTC)', 'number', (row) => at(row.deadline_ms)],
    ],
    answer.elements,
  );
}

function dueKeys(answer) {
  return table(
    `Keys of database ${inspected.db} that are due next`,
    [
      ['Key', 'mono', (row) => (row.cut ? name(row) : keyButton(row.name))],
      ['First deadline in', 'number', (row) => left(row.ms_left)],
    ],
    answer.keys,
  );
}

function keyButton(key) {
  const button = make('button', { type: 'button', class: 'link mono' }, key);
  button.addEventListener('click', () => {
    byId('key').value = key;
    inspect(key, inspected.db, 0);
    byId('key').focus();
  });
  return button;
}

function pager(rows, total) {
  const { offset } = inspected;
  const step = (title, to, isOff) => {
    const button = make('button', { type: 'button' }, title);
    button.disabled = isOff;
    button.addEventListener('click', () => inspect(inspected.key, inspected.db, to));
    return button;
  };
  return make(
    'div',
    { class: 'pager' },
    step('Earlier', Math.max(offset - PAGE, 0), offset === 0),
    step('Later', offset + PAGE, offset + rows.length >= total),
    make('span', { class: 'quiet' }, `${count(offset + 1)} to ${count(offset + rows.length)} of ${count(total)}`),
  );
}
