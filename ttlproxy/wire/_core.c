/* RESP as bytes, for the path of every request. Pure functions: no I/O, no clock, and nothing is kept
 * between two calls. ttlproxy/wire/twin.py does the same in Python, is used if this file is not built, and
 * has the docstrings; tests/core/test_core.py compares the two.
 *
 * Bytes may come from anybody. So each position is compared with the end before it is read, and
 * memory is allocated only for bytes that have arrived, never because of a number in a header.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* Redis 6.2 refuses a request of more elements, and by default longer bulk strings. */
#define MAX_ELEMENTS (1024 * 1024)
#define MAX_BULK (512 * 1024 * 1024)
/* The size of the shortest bulk string, "$0\r\n\r\n". */
#define LEAST_BULK 6
/* The longest name in a table. */
#define MAX_NAME 64
/* The most digits of a number in a reply, and the most values that a reply may have. */
#define MAX_DIGITS 18
#define MAX_VALUES ((Py_ssize_t)1 << 61)
/* The bound of a key without deadlines: ttlproxy.core.registry. */
#define NOTHING_DUE ((long long)1 << 62)
/* The number of slots of a Cluster; each slot has a tag of three bytes. */
#define SLOTS 16384
/* The size of the longest key in `heads`. */
#define MAX_HEAD 256
/* The most digits of a number in place of which a key in `heads` has as many "#". */
#define MAX_NUMBER 15
/* After more requests that set deadlines, the other requests of a chunk must become calls too. */
#define MOST_SETTERS 128

/* Which words of a command are keys, as ttlproxy.commands.route numbers it. */
enum { NO_KEY, ANY_KEY, ONE_KEY, KEPT_KEY, READ_KEY, KNOWN_KEY };

typedef struct {
    const char *at, *end;
} Bytes;

/* ---- Requests, as clients send them: arrays of bulk strings ---- */

/* Reads the number in the header at `at`, without sign or leading zeros, as every client writes it. Returns
 * the position after the header; NULL if it is not whole or not a header of this kind. */
static const char *header(const char *at, const char *end, char kind, Py_ssize_t *number)
{
    Py_ssize_t found = 0;
    const char *digits;

    if (at == end || *at != kind)
        return NULL;
    digits = ++at;
    while (at < end && *at >= '0' && *at <= '9' && at - digits < 9)
        found = 10 * found + (*at++ - '0');
    if (at == digits || (*digits == '0' && at - digits > 1))
        return NULL;
    if (end - at < 2 || at[0] != '\r' || at[1] != '\n')
        return NULL;
    *number = found;
    return at + 2;
}

/* Reads the number of words of the request at `at`. Returns the position after its header; NULL if there
 * is none, or if the bytes up to `end` are too few for that number. */
static const char *request(const char *at, const char *end, Py_ssize_t *count)
{
    at = header(at, end, '*', count);
    if (at == NULL || *count < 1 || *count > MAX_ELEMENTS || *count > (end - at) / LEAST_BULK)
        return NULL;
    return at;
}

/* Reads the word at `at`. Returns the position after it; NULL if it is not whole. */
static const char *bulk(const char *at, const char *end, Bytes *word)
{
    Py_ssize_t size;

    at = header(at, end, '$', &size);
    if (at == NULL || size > MAX_BULK || end - at < size + 2)
        return NULL;
    word->at = at;
    word->end = at + size;
    return word->end[0] == '\r' && word->end[1] == '\n' ? word->end + 2 : NULL;
}

/* Returns the position after `count` words; NULL if one is not whole. */
static const char *skip(const char *at, const char *end, Py_ssize_t count)
{
    Bytes word;

    while (count-- > 0 && at != NULL)
        at = bulk(at, end, &word);
    return at;
}

/* Returns a list of `count` words; NULL, with `*at` set to NULL, if one is not whole; NULL with an exception. */
static PyObject *words_at(const char **at, const char *end, Py_ssize_t count)
{
    PyObject *words = PyList_New(count), *made;
    Bytes word;

    for (Py_ssize_t i = 0; words != NULL && i < count; i++) {
        *at = bulk(*at, end, &word);
        made = *at == NULL ? NULL : PyBytes_FromStringAndSize(word.at, word.end - word.at);
        if (made == NULL)
            Py_CLEAR(words);
        else
            PyList_SET_ITEM(words, i, made);
    }
    return words;
}

/* Appends `item`, which may be NULL, and releases it; returns whether that succeeded. */
static int append(PyObject *list, PyObject *item)
{
    int failed = item == NULL || PyList_Append(list, item) < 0;

    Py_XDECREF(item);
    return !failed;
}

static int is_bytes(PyObject *object)
{
    if (PyBytes_CheckExact(object))
        return 1;
    PyErr_Format(PyExc_TypeError, "bytes are needed, not %.100s", Py_TYPE(object)->tp_name);
    return 0;
}

static Bytes bytes_of(PyObject *object)
{
    Bytes found = {PyBytes_AS_STRING(object), PyBytes_AS_STRING(object) + PyBytes_GET_SIZE(object)};

    return found;
}

static PyObject *cut(PyObject *Py_UNUSED(self), PyObject *data)
{
    PyObject *requests, *words;
    const char *at, *next;
    Py_ssize_t count;
    Bytes all;

    if (!is_bytes(data) || (requests = PyList_New(0)) == NULL)
        return NULL;
    all = bytes_of(data);
    for (at = all.at; at < all.end; at = next) {
        if ((next = request(at, all.end, &count)) == NULL)
            break;
        words = words_at(&next, all.end, count);
        if (words == NULL && next == NULL)
            break;
        if (!append(requests, words)) {
            Py_DECREF(requests);
            return NULL;
        }
    }
    return Py_BuildValue("(Nn)", requests, (Py_ssize_t)(at - all.at));
}

static PyObject *request_ends(PyObject *Py_UNUSED(self), PyObject *args)
{
    PyObject *data, *ends;
    const char *at, *next;
    Py_ssize_t begin, count;
    Bytes all;

    if (!PyArg_ParseTuple(args, "Sn:request_ends", &data, &begin))
        return NULL;
    if (begin < 0 || begin > PyBytes_GET_SIZE(data)) {
        PyErr_SetString(PyExc_ValueError, "begin is outside data");
        return NULL;
    }
    if ((ends = PyList_New(0)) == NULL)
        return NULL;
    all = bytes_of(data);
    for (at = all.at + begin; at < all.end; at = next) {
        next = request(at, all.end, &count);
        if (next == NULL || (next = skip(next, all.end, count)) == NULL)
            break;
        if (!append(ends, PyLong_FromSsize_t(next - all.at))) {
            Py_DECREF(ends);
            return NULL;
        }
    }
    return ends;
}

/* ---- Replies of RESP2 and RESP3; the bytes may end at any place ---- */

/* Reads the number in a reply's header, without its first byte: -?[0-9]{1,18}. Returns whether it is one. */
static int reply_number(const char *at, const char *end, Py_ssize_t *number)
{
    int is_negative = at < end && *at == '-';
    Py_ssize_t found = 0;

    at += is_negative;
    if (at == end || end - at > MAX_DIGITS)
        return 0;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9')
            return 0;
        found = 10 * found + (*at - '0');
    }
    *number = is_negative ? -found : found;
    return 1;
}

/* Reads a header without its line break. Counts in `*left` the values that are still to come, and sets
 * `*size` to the number of bytes that belong to it after its line. Returns whether it is a header. */
static int after_header(const char *at, const char *end, Py_ssize_t *left, Py_ssize_t *size)
{
    char kind = at == end ? '\0' : *at;
    Py_ssize_t number, before = *left > 0 ? *left : 1;

    *size = 0;
    switch (kind) {
    case '+': case '-': case ':': case '_': case ',': case '#': case '(':
        *left = before - 1;
        return 1;
    case '$': case '=': case '!': case '*': case '~': case '>': case '%': case '|':
        break;
    default:
        return 0;
    }
    if (!reply_number(at + 1, end, &number))
        return 0;
    if (kind == '$' || kind == '=' || kind == '!') {
        *left = before - 1;
        *size = number < 0 ? 0 : number + 2;
        return 1;
    }
    if (kind == '|') { /* the value that the attributes describe follows */
        if (number < 0)
            return 0;
        *left = before + 2 * number;
    } else {
        if (number < 0)
            number = 0;
        /* A push between the elements of a reply is not an element. */
        *left = before - 1 + (kind == '%' ? 2 * number : number) + (kind == '>' && *left > 0);
    }
    return *left <= MAX_VALUES;
}

/* Returns the first line break at or after `at`; NULL if there is none. */
static const char *line_break(const char *at, const char *end)
{
    while (at < end && (at = memchr(at, '\r', end - at)) != NULL) {
        if (end - at < 2)
            return NULL;
        if (at[1] == '\n')
            return at;
        at++;
    }
    return NULL;
}

/* How far replies have been read, and how many have ended; as in reply_ends. */
typedef struct {
    Py_ssize_t left, at, replies, pushes;
    int kind;
} Reading;

/* Reads from `reading->at` and appends the end of each reply to `ends`, if that is not NULL. Returns 0 if
 * there is no reply at `reading->at`, -1 with an exception. */
static int read_replies(Bytes all, Reading *reading, PyObject *ends)
{
    int has_ended = reading->at > 0 && reading->left == 0;
    Py_ssize_t size = all.end - all.at, skipped;
    const char *begin, *line;

    while (reading->at <= size) {
        if (has_ended) {
            *(reading->kind == '>' ? &reading->pushes : &reading->replies) += 1;
            reading->kind = 0;
            if (ends != NULL && !append(ends, PyLong_FromSsize_t(reading->at)))
                return -1;
        }
        begin = all.at + reading->at;
        if ((line = line_break(begin, all.end)) == NULL)
            break;
        if (!after_header(begin, line, &reading->left, &skipped))
            return 0;
        reading->kind = reading->kind ? reading->kind : *begin;
        reading->at = (line - all.at) + 2 + skipped;
        has_ended = reading->left == 0;
    }
    return 1;
}

static PyObject *reply_ends(PyObject *Py_UNUSED(self), PyObject *args)
{
    PyObject *data, *ends;
    Py_ssize_t size;
    Reading now = {0};
    int done;

    if (!PyArg_ParseTuple(args, "Snni:reply_ends", &data, &now.left, &now.at, &now.kind))
        return NULL;
    if (now.left < 0 || now.left > MAX_VALUES || now.at < 0) {
        PyErr_SetString(PyExc_ValueError, "left or size is out of range");
        return NULL;
    }
    if ((ends = PyList_New(0)) == NULL)
        return NULL;
    done = read_replies(bytes_of(data), &now, ends);
    size = PyBytes_GET_SIZE(data);
    if (done > 0)
        return Py_BuildValue("(Nnnnin)", ends, now.pushes, now.left, now.at > size ? now.at - size : 0, now.kind,
                             Py_MIN(now.at, size));
    if (done == 0)
        PyErr_Format(PyExc_ValueError, "no reply at %zd", now.at);
    Py_DECREF(ends);
    return NULL;
}

static PyObject *whole_replies(PyObject *Py_UNUSED(self), PyObject *data)
{
    Reading now = {0};

    if (!is_bytes(data))
        return NULL;
    if (read_replies(bytes_of(data), &now, NULL) != 1 || now.kind || now.pushes || now.at != PyBytes_GET_SIZE(data))
        now.replies = 0;
    return PyLong_FromSsize_t(now.replies);
}

/* ---- Chunks that pass unchanged ---- */

typedef struct {
    uint8_t kind, size; /* `size`: 0 in an empty slot */
    char name[MAX_NAME];
} Slot;

typedef struct {
    PyObject_HEAD
    Slot *slots;
    uint32_t mask; /* the number of slots, a power of two, minus one */
} Table;

static uint32_t hash_of(const char *at, Py_ssize_t size)
{
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (Py_ssize_t i = 0; i < size; i++)
        hash = (hash ^ (uint8_t)at[i]) * 16777619u;
    return hash ^ (hash >> 15);
}

/* Returns the slot that has this name; if none has it, the empty slot for it. */
static Slot *slot_of(Table *table, const char *at, Py_ssize_t size)
{
    for (uint32_t i = hash_of(at, size);; i++) {
        Slot *slot = &table->slots[i & table->mask];

        if (slot->size == 0 || (slot->size == size && memcmp(slot->name, at, size) == 0))
            return slot;
    }
}

/* Returns the kind of the command with this name; -1 if the table does not have it. */
static int kind_of(Table *table, Bytes name)
{
    Py_ssize_t size = name.end - name.at;
    Slot *slot;

    if (size == 0 || size > MAX_NAME)
        return -1;
    slot = slot_of(table, name.at, size);
    return slot->size == 0 ? -1 : slot->kind;
}

static PyObject *table_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords))
{
    PyObject *kinds, *name, *kind;
    Py_ssize_t at = 0, count = 2;
    Table *table;

    if (!PyArg_ParseTuple(args, "O!", &PyDict_Type, &kinds))
        return NULL;
    if ((table = (Table *)type->tp_alloc(type, 0)) == NULL)
        return NULL;
    while (count < 4 * PyDict_GET_SIZE(kinds)) /* at most half of the slots are taken */
        count *= 2;
    table->mask = (uint32_t)(count - 1);
    if ((table->slots = PyMem_Calloc(count, sizeof(Slot))) == NULL) {
        Py_DECREF(table);
        return PyErr_NoMemory();
    }
    while (PyDict_Next(kinds, &at, &name, &kind)) {
        long number = PyLong_AsLong(kind);
        Slot *slot;

        if (!is_bytes(name) || (number == -1 && PyErr_Occurred())) {
            Py_DECREF(table);
            return NULL;
        }
        if (number < NO_KEY || number > KNOWN_KEY) {
            PyErr_SetString(PyExc_ValueError, "a kind is out of range");
            Py_DECREF(table);
            return NULL;
        }
        if (PyBytes_GET_SIZE(name) == 0 || PyBytes_GET_SIZE(name) > MAX_NAME)
            continue;
        slot = slot_of(table, PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name));
        slot->kind = (uint8_t)number;
        slot->size = (uint8_t)PyBytes_GET_SIZE(name);
        memcpy(slot->name, PyBytes_AS_STRING(name), slot->size);
    }
    return (PyObject *)table;
}

static void table_dealloc(Table *table)
{
    PyTypeObject *type = Py_TYPE(table);

    PyMem_Free(table->slots);
    type->tp_free(table);
    Py_DECREF(type);
}

/* The arguments of `plain`; see its docstring. */
typedef struct {
    PyObject *hidden, *managed, *begins, *heads, *ruled;
    int looks; /* whether keys have to be looked at */
    long long first;
} Known;

static int starts_with_any(Bytes word, PyObject *beginnings)
{
    Py_ssize_t size = word.end - word.at;

    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(beginnings); i++) {
        Bytes each = bytes_of(PyTuple_GET_ITEM(beginnings, i));

        if (each.end - each.at <= size && memcmp(each.at, word.at, each.end - each.at) == 0)
            return 1;
    }
    return 0;
}

/* Sets `*bound` to the bound of a managed key. Returns 1; 0 if it is not managed, -1 with an exception. */
static int bound_of(PyObject *managed, Bytes key, long long *bound)
{
    PyObject *made = PyBytes_FromStringAndSize(key.at, key.end - key.at), *found;

    if (made == NULL)
        return -1;
    found = PyDict_GetItemWithError(managed, made);
    Py_DECREF(made);
    if (found == NULL)
        return PyErr_Occurred() ? -1 : 0;
    *bound = PyLong_AsLongLong(found);
    return *bound == -1 && PyErr_Occurred() ? -1 : 1;
}

/* Returns whether a rule may match a key that a command writes. */
static int may_match(Known *known, Bytes key)
{
    if (key.at == key.end)
        return 1; /* Python decides */
    if (PyTuple_GET_ITEM(known->begins, (uint8_t)*key.at) != Py_True)
        return 0;
    return starts_with_any(key, known->heads);
}

/* Returns whether a command of this kind certainly passes with this key, or with a word that may be a key;
 * -1 with an exception. */
static int key_passes(Known *known, int kind, Bytes key)
{
    int keeps = kind == KEPT_KEY && !starts_with_any(key, known->ruled), is_managed;
    long long bound;

    is_managed = bound_of(known->managed, key, &bound);
    if (is_managed < 0)
        return -1;
    if (!is_managed)
        return kind == READ_KEY || keeps || PyTuple_GET_SIZE(known->heads) == 0 || !may_match(known, key);
    if (kind < READ_KEY && !keeps)
        return 0;
    known->first = Py_MIN(known->first, bound);
    return 1;
}

/* Returns whether the request of `count` words at `*at` certainly passes; if so, `*at` is after it. -1 with
 * an exception. */
static int request_passes(Table *table, const char **at, const char *end, Py_ssize_t count, Known *known)
{
    int kind = -1, passes = 1;
    Bytes word;

    for (Py_ssize_t i = 0; i < count; i++) {
        if ((*at = bulk(*at, end, &word)) == NULL || starts_with_any(word, known->hidden))
            return 0;
        if (i == 0)
            kind = kind_of(table, word);
        if (kind < 0)
            return 0;
        if (i == 0 || kind == NO_KEY || !known->looks)
            continue;
        if (i == 1 || kind == ANY_KEY)
            passes = key_passes(known, kind, word);
        if (passes <= 0)
            return passes;
    }
    return kind == NO_KEY || !known->looks || count > 1;
}

static int all_are_bytes(PyObject *tuple)
{
    if (!PyTuple_CheckExact(tuple))
        return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++)
        if (!PyBytes_CheckExact(PyTuple_GET_ITEM(tuple, i)))
            return 0;
    return 1;
}

static PyObject *table_plain(Table *table, PyObject *const *args, Py_ssize_t nargs)
{
    Known known = {.first = NOTHING_DUE};
    const char *at;
    Py_ssize_t found = 0, count;
    Bytes all;
    int passes;

    if (nargs != 6 || !PyBytes_CheckExact(args[0]) || !all_are_bytes(args[1]) || !PyTuple_CheckExact(args[3]) ||
        PyTuple_GET_SIZE(args[3]) != 256 || !all_are_bytes(args[4]) || !all_are_bytes(args[5])) {
        PyErr_SetString(PyExc_TypeError, "plain(data, hidden, managed, begins, heads, ruled)");
        return NULL;
    }
    known.hidden = args[1];
    known.managed = args[2];
    known.begins = args[3];
    known.heads = args[4];
    known.ruled = args[5];
    if (!PyDict_CheckExact(known.managed)) /* several databases: Python handles them */
        return Py_BuildValue("(nL)", (Py_ssize_t)0, NOTHING_DUE);
    known.looks = PyDict_GET_SIZE(known.managed) > 0 || PyTuple_GET_SIZE(known.heads) > 0;
    all = bytes_of(args[0]);
    for (at = all.at; at < all.end; found++) {
        at = request(at, all.end, &count);
        passes = at == NULL ? 0 : request_passes(table, &at, all.end, count, &known);
        if (passes < 0)
            return NULL;
        if (passes == 0)
            return Py_BuildValue("(nL)", (Py_ssize_t)0, NOTHING_DUE);
    }
    return Py_BuildValue("(nL)", found, known.first);
}

/* ---- Calls of scripts in place of requests ---- */

/* Bytes that grow as they are written. `bytes` is NULL, with an exception, after memory ran out. */
typedef struct {
    PyObject *bytes;
    Py_ssize_t size;
} Out;

static void put(Out *out, Bytes bytes)
{
    Py_ssize_t size = bytes.end - bytes.at;

    if (out->bytes != NULL && PyBytes_GET_SIZE(out->bytes) - out->size < size)
        _PyBytes_Resize(&out->bytes, 2 * (out->size + size));
    if (out->bytes == NULL)
        return;
    memcpy(PyBytes_AS_STRING(out->bytes) + out->size, bytes.at, size);
    out->size += size;
}

static void put_text(Out *out, const char *text)
{
    put(out, (Bytes){text, text + strlen(text)});
}

static void put_header(Out *out, char kind, Py_ssize_t number)
{
    char header[32];

    snprintf(header, sizeof header, "%c%zd\r\n", kind, number);
    put_text(out, header);
}

/* Writes a number as a bulk string. */
static void put_number(Out *out, Py_ssize_t number)
{
    char digits[32];

    put_header(out, '$', snprintf(digits, sizeof digits, "%zd\r\n", number) - 2);
    put_text(out, digits);
}

/* Reduces a key to its hash tag, found as Redis finds it. Returns whether it has one. */
static int has_tag(Bytes *key)
{
    const char *begin = memchr(key->at, '{', key->end - key->at), *end;

    if (begin == NULL || (end = memchr(begin, '}', key->end - begin)) == NULL || end - begin < 2)
        return 0;
    *key = (Bytes){begin + 1, end};
    return 1;
}

/* Returns the slot of a key without a hash tag: CRC-16/XMODEM, four bits at a time. */
static int slot_of_key(Bytes key)
{
    unsigned crc = 0;

    for (; key.at < key.end; key.at++) {
        crc ^= (unsigned)(uint8_t)*key.at << 8;
        for (int half = 0; half < 2; half++)
            crc = ((crc << 4) ^ ((crc >> 12) * 0x1021)) & 0xffff;
    }
    return crc % SLOTS;
}

/* The parts of the names of indexes: see index_name. */
typedef struct {
    PyObject *prefix, *tags;
} Names;

/* Writes the name of the index of a key; as a bulk string if `is_bulk`. */
static void put_index(Out *out, Names *names, Bytes key, int is_bulk)
{
    char kind[] = "{...}:";
    Bytes tag = key;

    if (has_tag(&tag))
        memcpy(kind, "t:", 3);
    else
        memcpy(kind + 1, PyBytes_AS_STRING(names->tags) + 3 * slot_of_key(key), 3);
    if (is_bulk)
        put_header(out, '$', PyBytes_GET_SIZE(names->prefix) + strlen(kind) + (key.end - key.at));
    put(out, bytes_of(names->prefix));
    put_text(out, kind);
    put(out, key);
    put_text(out, is_bulk ? "\r\n" : "");
}

static int are_tags(PyObject *tags)
{
    if (PyBytes_GET_SIZE(tags) == 3 * SLOTS)
        return 1;
    PyErr_SetString(PyExc_ValueError, "each slot needs a tag of three bytes");
    return 0;
}

static PyObject *index_name(PyObject *Py_UNUSED(self), PyObject *args)
{
    PyObject *key;
    Names names;
    Out out = {0};

    if (!PyArg_ParseTuple(args, "SSS:index_name", &names.prefix, &names.tags, &key) || !are_tags(names.tags))
        return NULL;
    out.bytes = PyBytes_FromStringAndSize(NULL, PyBytes_GET_SIZE(names.prefix) + 6 + PyBytes_GET_SIZE(key));
    put_index(&out, &names, bytes_of(key), 0);
    if (out.bytes != NULL)
        _PyBytes_Resize(&out.bytes, out.size);
    return out.bytes;
}

/* The items of a template: see Table.calls. */
enum { SCRIPT, SHA, ARGV, WORDS, FIRST, SETS, HOLE, ITEMS };

static int is_template(PyObject *found)
{
    PyTypeObject *types[] = {&PyUnicode_Type, &PyBytes_Type, &PyBytes_Type, &PyLong_Type, &PyBytes_Type, &PyBool_Type, &PyLong_Type};
    int is_one = PyTuple_CheckExact(found) && PyTuple_GET_SIZE(found) == ITEMS;

    for (int i = 0; is_one && i < ITEMS; i++)
        is_one = Py_IS_TYPE(PyTuple_GET_ITEM(found, i), types[i]);
    if (!is_one)
        PyErr_SetString(PyExc_TypeError, "a template is (script, sha, argv, words, first, sets, hole)");
    return is_one;
}

static int same(Bytes one, Bytes other)
{
    return one.end - one.at == other.end - other.at && memcmp(one.at, other.at, one.end - one.at) == 0;
}

static Bytes item(PyObject *template, int number)
{
    return bytes_of(PyTuple_GET_ITEM(template, number));
}

/* A request. If `template` is NULL, it is passed on unchanged and is `tail`. Else it becomes a call: `sent` is its key
 * as a bulk string, `number` goes into the hole of the template, and `tail` are the `words` words that follow. */
typedef struct {
    PyObject *template;
    Bytes key, sent, tail, number;
    Py_ssize_t words;
} Part;

typedef struct {
    Table *table;
    Known known;
    Names names;
    PyObject *heads, *families, *sure, *schedule, *made;
    long long other, now;
    Py_ssize_t most, requests, writes, setters, count;
    int stops;
    Part *parts;
    Bytes set[MOST_SETTERS]; /* the keys of the first of `setters` */
    Out out;
} Calls;

/* Returns the first of the longest numbers among these words, up to MAX_NUMBER digits; empty if there is none. */
static Bytes number_in(Bytes words)
{
    Bytes word, found = {words.at, words.at};
    const char *at = words.at, *digit;

    while (at < words.end && (at = bulk(at, words.end, &word)) != NULL) {
        for (digit = word.at; digit < word.end && *digit >= '0' && *digit <= '9';)
            digit++;
        if (digit == word.end && digit - word.at > found.end - found.at && digit - word.at <= MAX_NUMBER && *word.at != '0')
            found = word;
    }
    return found;
}

/* Returns the value in `heads` for two pieces of a request; if `number`, a word of `rest`, is not empty, the value for
 * any number of that length. NULL if there is none, or with an exception. */
static PyObject *looked_up(PyObject *heads, Bytes name, Bytes rest, Bytes number)
{
    Py_ssize_t size = name.end - name.at, more = rest.end - rest.at, any = number.end > number.at;
    PyObject *head, *found;
    char *made;

    if (size + more > MAX_HEAD || (head = PyBytes_FromStringAndSize(NULL, size + more + any)) == NULL)
        return NULL;
    made = PyBytes_AS_STRING(head);
    memcpy(made, name.at, size);
    memcpy(made + size, rest.at, more);
    memset(made + size + (number.at - rest.at), '#', number.end - number.at);
    if (any)
        made[size + more] = '#';
    found = PyDict_GetItemWithError(heads, head);
    Py_DECREF(head);
    return found;
}

/* Finds the template for the request of `count` words that begins at `name.at`, and whose header ends at `*at`. Returns
 * 1, with `*at` after the request; 0 if there is no template, -1 with an exception. */
static int find_template(PyObject *heads, Bytes name, const char **at, const char *end, Py_ssize_t count, Part *part)
{
    const char *behind, *split; /* the ends of the key, and of the elements before other words (or the reverse) */
    Py_ssize_t tail_at = 0;
    PyObject *found;
    Bytes word, rest;

    if (count < 2 || (name.end = bulk(*at, end, &word)) == NULL || (behind = bulk(name.end, end, &part->key)) == NULL)
        return 0;
    part->sent = (Bytes){name.end, behind};
    rest = part->number = (Bytes){behind, behind};
    found = looked_up(heads, name, rest, rest);
    if (found != NULL && PyLong_CheckExact(found)) {
        tail_at = PyLong_AsSsize_t(found);
        if (tail_at < 2 || tail_at >= count)
            return PyErr_Occurred() ? -1 : 0;
    }
    split = skip(behind, end, tail_at > 2 ? tail_at - 2 : tail_at / 2);
    *at = skip(split, end, count - 2 - (tail_at > 2 ? tail_at - 2 : tail_at / 2));
    if (*at == NULL)
        return 0;
    if (tail_at > 0) {
        rest = tail_at == 2 ? (Bytes){split, *at} : (Bytes){behind, split};
        part->number = number_in(rest);
        found = looked_up(heads, name, rest, part->number);
        if (found == NULL && !PyErr_Occurred() && part->number.end > part->number.at) {
            part->number.end = part->number.at;
            found = looked_up(heads, name, rest, part->number);
        }
    }
    if (found == NULL || PyLong_CheckExact(found) || !is_template(found))
        return PyErr_Occurred() ? -1 : 0;
    part->tail = tail_at == 2 ? (Bytes){behind, split} : (Bytes){split, *at};
    part->words = tail_at == 2 ? 1 : count - Py_MAX(tail_at, 2);
    part->template = Py_NewRef(found);
    return 1;
}

/* Returns whether the template may be used with this key and these words; -1 with an exception. Sets `*is_managed` to
 * whether the key may have deadlines. */
static int may_call(Calls *calls, const Part *part, int *is_managed)
{
    Bytes allowed = item(part->template, FIRST), first = {NULL, NULL};
    int sets = PyTuple_GET_ITEM(part->template, SETS) == Py_True;
    long long bound = calls->other;

    if ((*is_managed = bound_of(calls->known.managed, part->key, &bound)) < 0)
        return -1;
    *is_managed = *is_managed || starts_with_any(part->key, calls->families);
    if (!*is_managed || (sets ? !starts_with_any(part->key, calls->sure) : starts_with_any(part->key, calls->known.ruled)))
        return 0;
    if (allowed.at < allowed.end && (part->words == 0 || bulk(part->tail.at, part->tail.end, &first) == NULL ||
                                     first.at == first.end || memchr(allowed.at, *first.at, allowed.end - allowed.at) == NULL))
        return 0;
    calls->known.first = Py_MIN(calls->known.first, bound);
    if (sets && calls->setters < MOST_SETTERS)
        calls->set[calls->setters] = part->key;
    *(sets ? &calls->setters : &calls->writes) += 1;
    return 1;
}

/* Returns whether one of `count` words is the key of an earlier request that sets deadlines; they may be due at once. */
static int names_set(const Calls *calls, const char *at, const char *end, Py_ssize_t count)
{
    Bytes word;

    if (calls->setters > MOST_SETTERS)
        return 1;
    while (count-- > 0 && (at = bulk(at, end, &word)) != NULL)
        for (Py_ssize_t i = 0; i < calls->setters; i++)
            if (same(calls->set[i], word))
                return 1;
    return 0;
}

/* Reads the request of `count` words at `begin`, whose header ends at `*at`. Returns 1, with `*at` after the request; 0
 * if it neither becomes a call nor passes, -1 with an exception. */
static int read_part(Calls *calls, const char *begin, const char **at, const char *end, Py_ssize_t count, Part *part)
{
    const char *words = *at;
    int result = find_template(calls->heads, (Bytes){begin, begin}, at, end, count, part), is_managed = 0;

    if (result > 0 && ((result = may_call(calls, part, &is_managed)) != 0 || is_managed))
        return result;
    if (result < 0)
        return -1;
    Py_CLEAR(part->template);
    *at = words;
    result = request_passes(calls->table, at, end, count, &calls->known);
    part->tail = (Bytes){begin, *at};
    return result > 0 && calls->setters > 0 && names_set(calls, words, end, count) ? 0 : result;
}

/* Calls read_part for each request of `all`. Returns as it does; 0 also if no request becomes a call. */
static int read_parts(Calls *calls, Bytes all)
{
    Py_ssize_t room = 0, words;
    const char *at, *next;
    Part *grown;
    int result;

    for (at = all.at; at < all.end; at = next) {
        if ((next = request(at, all.end, &words)) == NULL)
            return 0;
        if (calls->count == room) {
            room = 2 * room + 4;
            if ((grown = PyMem_Realloc(calls->parts, room * sizeof(Part))) == NULL) {
                PyErr_NoMemory();
                return -1;
            }
            calls->parts = grown;
        }
        calls->parts[calls->count] = (Part){0};
        if ((result = read_part(calls, at, &next, all.end, words, &calls->parts[calls->count++])) <= 0)
            return result;
    }
    return calls->writes + calls->setters > 0;
}

/* Writes the words of ARGV before those that the call takes from the request. */
static void put_argv(Out *out, const Part *part)
{
    Bytes argv = item(part->template, ARGV);
    Py_ssize_t hole = PyLong_AsSsize_t(PyTuple_GET_ITEM(part->template, HOLE));
    Py_ssize_t size = part->number.end - part->number.at;

    if (hole > 0 && size > 0 && hole + size < argv.end - argv.at) {
        put(out, (Bytes){argv.at, argv.at + hole});
        put(out, part->number);
        argv.at += hole + size;
    }
    put(out, argv);
}

/* Writes the call for `count` requests with the same script. Returns 0 with an exception. */
static int put_call(Calls *calls, const Part *parts, Py_ssize_t count)
{
    int several = count > 1 || calls->stops;
    Py_ssize_t keys = several ? 1 + 2 * count + calls->stops : 3, words = 3 + keys + several * count, own;
    Bytes schedule = bytes_of(calls->schedule);
    Out *out = &calls->out;

    for (Py_ssize_t i = 0; i < count; i++)
        words += parts[i].words + PyLong_AsSsize_t(PyTuple_GET_ITEM(parts[i].template, WORDS));
    put_header(out, '*', words);
    put_text(out, "$7\r\nEVALSHA\r\n");
    put(out, item(parts->template, SHA));
    put_number(out, keys);
    if (several)
        put(out, schedule);
    for (Py_ssize_t i = 0; i < count; i++) {
        put(out, parts[i].sent);
        put_index(out, &calls->names, parts[i].key, 1);
    }
    if (!several || calls->stops)
        put(out, schedule);
    for (Py_ssize_t i = 0; i < count; i++) {
        own = PyLong_AsSsize_t(PyTuple_GET_ITEM(parts[i].template, WORDS));
        if (several)
            put_number(out, parts[i].words + own);
        put_argv(out, &parts[i]);
        put(out, parts[i].tail);
    }
    return append(calls->made,
                  Py_BuildValue("(Onn)", PyTuple_GET_ITEM(parts->template, SCRIPT), calls->requests, count));
}

/* Returns how many of `count` requests, from the first on, one call is for; 0 if the first is passed on unchanged. */
static Py_ssize_t alike(const Part *parts, Py_ssize_t count)
{
    Py_ssize_t found = 0;

    while (found < count && parts[found].template != NULL &&
           same(item(parts->template, SHA), item(parts[found].template, SHA)))
        found++;
    return found;
}

/* Writes all requests and calls. Returns 0 with an exception. */
static int put_parts(Calls *calls)
{
    Py_ssize_t together;

    for (Py_ssize_t i = 0; i < calls->count; i += Py_MAX(together, 1), calls->requests++) {
        together = alike(calls->parts + i, Py_MIN(calls->count - i, calls->most));
        if (together == 0)
            put(&calls->out, calls->parts[i].tail);
        else if (!put_call(calls, calls->parts + i, together))
            return 0;
    }
    return calls->out.bytes != NULL && !PyErr_Occurred();
}

static PyObject *table_calls(Table *table, PyObject *args)
{
    Calls calls = {.table = table, .known = {.first = NOTHING_DUE}};
    PyObject *data, *result = NULL;
    int may_stop, done;

    if (!PyArg_ParseTuple(args, "SO!O!O!O!O!O!O!O!(SSS)LLnp:calls", &data, &PyDict_Type, &calls.heads, &PyTuple_Type,
                          &calls.known.hidden, &PyDict_Type, &calls.known.managed, &PyTuple_Type, &calls.known.begins,
                          &PyTuple_Type, &calls.known.heads, &PyTuple_Type, &calls.families, &PyTuple_Type, &calls.sure,
                          &PyTuple_Type, &calls.known.ruled, &calls.names.prefix, &calls.names.tags, &calls.schedule,
                          &calls.other, &calls.now, &calls.most, &may_stop) ||
        !are_tags(calls.names.tags))
        return NULL;
    if (!all_are_bytes(calls.known.hidden) || !all_are_bytes(calls.known.heads) || !all_are_bytes(calls.families) ||
        !all_are_bytes(calls.sure) || !all_are_bytes(calls.known.ruled) ||
        PyTuple_GET_SIZE(calls.known.begins) != 256)
        return PyErr_Format(PyExc_TypeError, "names are bytes, and `begins` is for 256 bytes");
    calls.known.looks = PyDict_GET_SIZE(calls.known.managed) > 0 || PyTuple_GET_SIZE(calls.known.heads) > 0;
    done = read_parts(&calls, bytes_of(data));
    calls.stops = calls.known.first < calls.now;
    if (done > 0 && (!calls.stops || may_stop)) {
        calls.out.bytes = PyBytes_FromStringAndSize(NULL, 2 * PyBytes_GET_SIZE(data) + 256);
        calls.made = PyList_New(0);
        done = calls.made != NULL && put_parts(&calls) ? 1 : -1;
        if (done > 0)
            _PyBytes_Resize(&calls.out.bytes, calls.out.size);
        if (done > 0 && calls.out.bytes != NULL && (!calls.stops || (calls.requests == 1 && calls.parts->template)))
            result = Py_BuildValue("(OnOnnO)", calls.out.bytes, calls.requests, calls.made, calls.writes,
                                   calls.setters, calls.stops ? Py_True : Py_False);
    }
    for (Py_ssize_t i = 0; i < calls.count; i++)
        Py_XDECREF(calls.parts[i].template);
    PyMem_Free(calls.parts);
    Py_XDECREF(calls.made);
    Py_XDECREF(calls.out.bytes);
    if (result != NULL || PyErr_Occurred())
        return result;
    Py_RETURN_NONE;
}

static PyMethodDef table_methods[] = {
    {"calls", (PyCFunction)table_calls, METH_VARARGS, "calls(data, heads, ...) -> tuple | None"},
    {"plain", (PyCFunction)(void (*)(void))table_plain, METH_FASTCALL,
     "plain(data, hidden, managed, begins, heads, ruled) -> (count, first)"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot table_slots[] = {
    {Py_tp_doc, "Table(kinds): the commands that need only a look at their keys; name -> where these stand."},
    {Py_tp_new, table_new},
    {Py_tp_dealloc, table_dealloc},
    {Py_tp_methods, table_methods},
    {0, NULL},
};

static PyType_Spec table_spec = {
    .name = "ttlproxy.wire._core.Table",
    .basicsize = sizeof(Table),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = table_slots,
};

static PyMethodDef functions[] = {
    {"cut", cut, METH_O, "cut(data) -> (requests, end)"},
    {"request_ends", request_ends, METH_VARARGS, "request_ends(data, begin) -> list[int]"},
    {"reply_ends", reply_ends, METH_VARARGS, "reply_ends(data, left, size, kind) -> tuple"},
    {"index_name", index_name, METH_VARARGS, "index_name(prefix, tags, key) -> bytes"},
    {"whole_replies", whole_replies, METH_O, "whole_replies(data) -> int"},
    {NULL, NULL, 0, NULL},
};

static int add_table(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &table_spec, NULL);
    int result = type == NULL ? -1 : PyModule_AddType(module, (PyTypeObject *)type);

    Py_XDECREF(type);
    return result;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, add_table},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
    {0, NULL},
};

static struct PyModuleDef module = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_core",
    .m_doc = "RESP as bytes: see ttlproxy/wire/twin.py.",
    .m_methods = functions,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&module);
}
