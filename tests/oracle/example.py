"""One example of the oracle's test: clients of a proxy, the possible worlds, Redis's clock.

Knows sockets, words and worlds; draws nothing. Time passes only while it waits for Redis's TIME.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from itertools import cycle
from typing import Any

from redis.exceptions import ResponseError

from tests.oracle.command_rows import SINCE
from tests.oracle.data import INT64, OK, Error, Reply, Value, score_text
from tests.oracle.model import Model, Plan, Session, Step
from tests.oracle.possible_states import DisagreementError, TooManyError, Worlds, same
from tests.oracle.strategies import FAR_MS, Element, Key, Time, Word, Words
from tests.oracle.virtual import VIRTUAL
from tests.support.processes import attempts, wait_until
from tests.support.redis_client import Client
from tests.support.redis_content import LEASE, Content, read
from ttlproxy.commands.types import hashes

SWEEP_TIMEOUT_S = 10.0
LAST_WORDS = 30
LOOK_EVERY = 4  # writes: reading Redis without the proxy costs as much as a write
EXPIRES = {b"EXPIRE", b"PEXPIRE", b"EXPIREAT", b"PEXPIREAT"}
# Where there are rules, near deadlines are so much later.
LONGER = 10
# A rule that matches no key changes no reply. But while there is one, keys end by the proxies.
RULE = b"nothing:*"
LEASE_TAKERS = {b"EXEC", b"FLUSHDB", b"FLUSHALL", b"SWAPDB"}
# Commands that a server may have itself: it keeps their deadlines where the oracle does not look,
# and Valkey's syntax differs.
HASH_FORMS = frozenset({b"HSETEX", *(row.name.encode() for row in hashes.REDIS_8)})
DATABASES = (0, 0, 1)  # each client's first database
PROTOCOLS = (2, 3, 3)


class Site:
    """The ports of proxies and of the server behind them, for all examples of one test.

    With `reaper` False another holder of the lease never reaps: elements are reaped only for
    requests.
    """

    def __init__(
        self, proxy_ports: list[int], server_port: int, server_name: str, *, reaper: bool = True
    ) -> None:
        self.proxy_ports = proxy_ports
        self.version = (6, 2) if server_name == "6.2" else (7, 0)
        self.reaper = reaper
        self.trials = 0
        self.requests = 0
        self.first_fault = ""
        self.direct = [Client(server_port, db) for db in range(2)]
        native = self.direct[0].ask("COMMAND", "INFO", "HEXPIRE")
        self.unlike = HASH_FORMS if native != [None] else frozenset[bytes]()
        nested = [self.direct[0].ask(name) for name in ("MULTI", "MULTI", "EXEC")]
        self.nesting_aborts = isinstance(nested[-1], Exception)

    def clear(self) -> None:
        """Cleans up after an example that failed; one that passed leaves nothing."""
        left = read(self.direct, self.version)
        if left.faults or any(left.model.databases):
            self.direct[0].ask("FLUSHALL")
        self.keep_lease()

    def keep_lease(self) -> None:
        """Takes the lease again: a flush or SWAPDB removes it."""
        if not self.reaper:
            self.direct[0].ask("SET", LEASE, "the tests", "PX", 3_600_000)

    def close(self) -> None:
        if not self.reaper:
            self.direct[0].ask("DEL", LEASE)
        for client in self.direct:
            client.close()


class Trial:
    def __init__(self, site: Site, keys: list[bytes], elements: list[bytes]) -> None:
        site.clear()
        site.trials += 1
        self.site = site
        # These names are new to the proxy.
        self.keys = [key + b"%d" % site.trials for key in keys]
        self.elements = elements
        self.worlds = Worlds(Model(site.version))
        ports = cycle(site.proxy_ports)
        self.clients = [
            Client(port, db, protocol)
            for port, db, protocol in zip(ports, DATABASES, PROTOCOLS, strict=False)
        ]
        self.sessions = [Session(db, nesting_aborts=site.nesting_aborts) for db in DATABASES]
        self.start_ms = -(-self.clock() // 1000) * 1000
        self.ruled = self.waits = False
        self.soonest_ms = FAR_MS  # of the deadlines in the requests that are sent, from now on
        self.failed = False
        self.aborted = False
        self.sent: list[str] = []

    def clock(self) -> int:
        return self.site.direct[0].now_ms()

    def send(self, client: int, requests: list[Words]) -> None:
        """Sends all requests in one write, and compares their replies with the model's."""
        requests = [words for words in requests if self._is_known(words[0])]
        if not requests:
            return
        with self._faults_told():
            before_ms = self.clock()
            # What is queued is carried out later.
            self.waits = self.sessions[client].queued is not None
            self.soonest_ms = FAR_MS
            filled = [self._filled(words, before_ms) for words in requests]
            replies = self._ask(self.clients[client], filled)
            self.site.requests += len(filled)
            after_ms = self.clock()
            self.sent.append(
                f"client {client} from {before_ms} to {after_ms}: {filled} -> {replies}"
            )
            if any(args[0].upper() in LEASE_TAKERS for args in filled):
                self.site.keep_lease()
            steps: list[tuple[Step, Reply]] = []
            for args, reply in zip(filled, replies, strict=True):
                steps += self._steps(self.sessions[client], args, reply)
            try:
                if self.ruled and after_ms - before_ms >= self.soonest_ms:
                    raise TooManyError  # past when it was set: its element might be seen once more
                self.worlds.follow(steps, before_ms, after_ms)
            except TooManyError:
                self.worlds = Worlds(read(self.site.direct, self.site.version).model)
            if len(self.worlds.models) > 1 or len(self.sent) % LOOK_EVERY == 0:
                self._look()

    def watch(self, client: int, key: Key, other: int, meddling: list[Words]) -> None:
        """A transaction must not run if its key has changed. A sweep may abort it too."""
        self.send(client, [(b"WATCH", key)])
        db = self.sessions[client].db
        before = self._states(db, key)
        for words in meddling:
            self.send(other, [words])
        after = self._states(db, key)
        self.aborted = False
        self.send(client, [(b"MULTI",), (b"EXISTS", key), (b"EXEC",)])
        with self._faults_told():
            if not self.aborted and not before & after:
                raise DisagreementError(f"EXEC ran, and {key} had changed: {before} to {after}")

    def set_rule(self, client: int, *, exists: bool) -> None:
        """From now on no deadline is past when it is set: its element might be seen once more."""
        self.ruled = True
        action = [b"RPUSH", b"out"] if exists else [b"DEL"]
        with self._faults_told():
            words = [b"ONEXPIRE", RULE, *action]
            (reply,) = self._ask(self.clients[client], [words])
            self.sent.append(f"client {client}: {words} -> {reply!r}")
            if reply != OK:
                raise DisagreementError(f"{words} answered {reply!r}")

    def evict(self, client: int, words: Words) -> None:
        """MAXLEN n EVICT: the next reader finds at most n; the first to expire are gone."""
        with self._faults_told():
            db, before_ms = self.sessions[client].db, self.clock()
            self._look()
            filled = self._filled(words, before_ms)
            key = filled[1]
            known = self.worlds.models[0].as_of(before_ms).databases[db].get(key)
            (reply,) = self._ask(self.clients[client], [filled])
            self.sent.append(f"client {client} from {before_ms}: {filled} -> {reply!r}")
            evicted_ms = self.clock()
            while self.clock() == evicted_ms:
                pass
            self._ask(self.clients[client], [[b"TYPE", key]])
            found = read(self.site.direct, self.site.version).model
            fault = _evicted_wrongly(filled, known, found.databases[db].get(key), reply)
            if fault is not None:
                raise DisagreementError(f"{filled!r} answered {reply!r}: {fault}")
            self.worlds = Worlds(found)

    def _states(self, db: int, key: Key) -> set[Hashable]:
        """The possible values of `key` now."""
        now_ms = self.clock()
        values = [model.databases[db].get(self.keys[key.place]) for model in self.worlds.models]
        living = [value.as_of(now_ms) if value is not None else None for value in values]
        return {None if value is None else value.frozen() for value in living}

    @contextmanager
    def _faults_told(self) -> Iterator[None]:
        """Keeps the log of the first fault: its timing may never happen again."""
        self.failed = True
        try:
            yield
        except Exception as fault:
            described = "\n".join([*self.sent[-LAST_WORDS:], repr(fault)])
            self.site.first_fault = self.site.first_fault or described
            raise
        self.failed = False

    def near(self) -> list[int]:
        """The near deadlines, for which a test can wait."""
        horizon_ms = self.clock() + FAR_MS // 2
        return [deadline for deadline in self.worlds.deadlines() if deadline < horizon_ms]

    def let_pass(self) -> None:
        """Returns when Redis's clock is past every near deadline, and no later than necessary."""
        last_ms = max(self.near(), default=0)
        while self.clock() <= last_ms:
            pass

    def finish(self) -> None:
        """Checks that Redis holds exactly what it should, and that DEL leaves nothing of it."""
        if self.failed:
            return
        with self._faults_told():
            self.let_pass()
            self._look(swept=self.site.reaper)
            self.worlds = Worlds(Model(self.site.version))
            for db in range(len(self.site.direct)):
                last = Client(self.site.proxy_ports[db % len(self.site.proxy_ports)], db)
                last.ask("DEL", *self.keys)
                last.ask("ONEXPIRE", RULE, "DEL")
                last.close()
            if self.ruled:
                for port in self.site.proxy_ports:
                    _forgets_rules(port)
            self._look(swept=True)

    def close(self) -> None:
        for client in self.clients:
            client.close()

    def _is_known(self, name: Word) -> bool:
        """Whether a server of this version has the command, and the oracle can judge it."""
        if not isinstance(name, bytes):
            return True
        wanted = SINCE.get(name.upper(), (0, 0))
        return wanted <= self.site.version and name.upper() not in self.site.unlike

    def _ask(self, client: Client, requests: list[list[bytes]]) -> list[Reply]:
        if len(requests) == 1:
            return [_reply(client.ask(*requests[0]))]
        return [_reply(each) for each in client.ask_many(requests)]

    def _filled(self, words: Words, now_ms: int) -> list[bytes]:
        args = [self._fill(word, now_ms) for word in words]
        # EXPIRE has conditions since 7.0; before, they are one word too many.
        return args[:3] if self.site.version < (7, 0) and args[0].upper() in EXPIRES else args

    def _fill(self, word: Word, now_ms: int) -> bytes:
        match word:
            case Key(place):
                return self.keys[place]
            case Element(place):
                return self.elements[place]
            case Time(ms, unit_ms, absolute, fixed):
                if self.ruled and ms < FAR_MS:
                    ms = (not self.waits and max(ms, 0) * LONGER) or FAR_MS
                    self.soonest_ms = min(self.soonest_ms, ms)
                base_ms = (self.start_ms if fixed else now_ms) if absolute else 0
                return b"%d" % ((base_ms + ms) // unit_ms)
        return word

    def _steps(self, session: Session, args: list[bytes], reply: Reply) -> list[tuple[Step, Reply]]:
        """The steps that the model must run to judge `reply`; what needs no data is judged here."""
        queueing = session.queued is not None
        plan = session.plan(args)
        if plan.watched and reply is None:
            self.aborted = True
            return []
        if plan.is_exec and isinstance(reply, list) and len(reply) == len(plan.steps):
            pairs = list(zip(plan.steps, reply, strict=True))
        elif plan.steps and not plan.is_exec:
            pairs = [(plan.steps[0], reply)]
        else:
            _judge(args, plan, reply, queueing=queueing)
            return []
        return [pair for pair in pairs if not _selects(*pair)]

    def _look(self, *, swept: bool = False) -> None:
        """Drops the worlds that contradict the content of Redis.

        `swept`: waits until Redis holds no hidden elements and no stale internal content; the
        reaper may need some time.
        """
        content, now_ms = Content(Model()), 0
        try:
            for _ in attempts(SWEEP_TIMEOUT_S if swept else 1.0, "what should stand in Redis"):
                content = read(self.site.direct, self.site.version)
                now_ms = self.clock()
                seen = content.model.frozen() if swept else content.as_of(now_ms)
                if self.worlds.narrow(now_ms, seen) and not (swept and content.faults):
                    return
        except TimeoutError:
            expected = [_differences(content.model, model) for model in self.worlds.models]
            raise DisagreementError(
                f"what stands in Redis at {now_ms}, and what should:\n   {expected}\n"
                f"   faults: {content.faults}"
            ) from None


def _forgets_rules(port: int) -> None:
    """Returns when the proxy knows that there is no rule: it has heard so, and reads them soon.
    Until then what is past when it is set waits for a reap, which the next example does not allow.
    """
    asker = Client(port)
    words = (["MULTI"], ["SADD", "s", "m"], ["SEXPIREATMEMBER", "s", "m", "1"], ["EXISTS", "s"])
    wait_until(lambda: asker.ask_many([*words, ["EXEC"]])[-1][-1] == 0, "the rules are read")
    asker.close()


def _evicted_wrongly(
    args: list[bytes], before: Value | None, after: Value | None, reply: Reply
) -> str | None:
    """What is wrong with the key after `args`, with MAXLEN and EVICT; None if nothing is."""
    if not isinstance(reply, int) or reply <= 0 or after is None:
        return None
    most = int(args[[word.upper() for word in args].index(b"MAXLEN") + 1])
    old = Value(after.type) if before is None else before
    left = {*after.elements, *after.items}
    others = left - set(args[6:])
    if len(after) > most and others:
        return f"{len(after)} are left"
    gone = {*old.elements, *old.items} - left - set(args[6:])
    kept = [old.deadlines.get(each, INT64) for each in others]
    if any(old.deadlines.get(each, INT64) > later for each in gone for later in kept):
        return f"{gone} went, {left} stayed"
    return None


def _differences(found: Model, expected: Model) -> list[str]:
    return [
        f"db {db} {key!r}: {there.get(key)}, expected {wanted.get(key)}"
        for db, (there, wanted) in enumerate(zip(found.databases, expected.databases, strict=True))
        for key in sorted({*there, *wanted})
        if there.get(key) != wanted.get(key)
    ]


def _reply(found: Any) -> Reply:
    """The reply in the model's form, which is RESP2's; `same` ignores the order of pairs."""
    match found:
        case ResponseError():
            return Error(str(found))
        case float():
            return score_text(found)
        case dict():
            return [_reply(word) for pair in found.items() for word in pair]
        case list() | set():
            return [_reply(each) for each in found]
    return found  # type: ignore[no-any-return]


def _judge(args: list[bytes], plan: Plan, reply: Reply, *, queueing: bool) -> None:
    """Inside MULTI the server refuses a virtual command or MULTI in its own words."""
    refused = isinstance(plan.reply, Error) and isinstance(reply, Error)
    if queueing and refused and args[0].decode().lower() in {*VIRTUAL, "multi"}:
        return
    if plan.is_exec or not same(args, plan.reply, reply):
        expected = f"{len(plan.steps)} replies" if plan.is_exec else repr(plan.reply)
        raise DisagreementError(f"{args}\n   answered {reply!r}\n   expected {expected}")


def _selects(step: Step, reply: Reply) -> bool:
    """Whether this is a SELECT inside EXEC: it touches no data."""
    if step.args[0].lower() != b"select":
        return False
    if reply != OK:
        raise DisagreementError(f"{step.args} answered {reply!r}")
    return True
