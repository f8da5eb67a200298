"""The nine commands of each type that set, read and remove deadlines of elements.

Generated from the command tables by `python -m tests.redis_py.elements`. Each takes one element,
and returns one number; or a list of elements, and returns a list.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar, overload

from ttlproxy.redis import words
from ttlproxy.redis.words import Condition, Sender, Ttl, UnixTime, Value, Values

Int = TypeVar("Int")
Ints = TypeVar("Ints")


class Elements(Sender, Generic[Int, Ints]):
    """ttl: seconds or milliseconds, as the command counts, or a timedelta; at: Unix time, or a
    datetime.
    """

    @overload
    def hexpirefield(
        self, key: Value, field: Value, ttl: Ttl, *, condition: Condition | None = None
    ) -> Int: ...

    @overload
    def hexpirefield(
        self, key: Value, field: Values, ttl: Ttl, *, condition: Condition | None = None
    ) -> Ints: ...

    def hexpirefield(
        self, key: Value, field: Value | Values, ttl: Ttl, *, condition: Condition | None = None
    ) -> Any:
        """Sets the time to live of hash fields, in seconds.

        Returns 1 set, 0 condition not met, 2 deleted because the time is past, -2 no such key or
        field.
        """
        return self.execute_command(
            "HEXPIREFIELD", key, *words.deadline("FIELDS", field, words.seconds(ttl), condition)
        )

    @overload
    def hpexpirefield(
        self, key: Value, field: Value, ttl: Ttl, *, condition: Condition | None = None
    ) -> Int: ...

    @overload
    def hpexpirefield(
        self, key: Value, field: Values, ttl: Ttl, *, condition: Condition | None = None
    ) -> Ints: ...

    def hpexpirefield(
        self, key: Value, field: Value | Values, ttl: Ttl, *, condition: Condition | None = None
    ) -> Any:
        """Sets the time to live of hash fields, in milliseconds.

        Returns 1 set, 0 condition not met, 2 deleted because the time is past, -2 no such key or
        field.
        """
        return self.execute_command(
            "HPEXPIREFIELD",
            key,
            *words.deadline("FIELDS", field, words.milliseconds(ttl), condition),
        )

    @overload
    def hexpireatfield(
        self, key: Value, field: Value, at: UnixTime, *, condition: Condition | None = None
    ) -> Int: ...

    @overload
    def hexpireatfield(
        self, key: Value, field: Values, at: UnixTime, *, condition: Condition | None = None
    ) -> Ints: ...

    def hexpireatfield(
        self, key: Value, field: Value | Values, at: UnixTime, *, condition: Condition | None = None
    ) -> Any:
        """Sets the expiry time of hash fields, as Unix time in seconds.

        Returns 1 set, 0 condition not met, 2 deleted because the time is past, -2 no such key or
        field.
        """
        return self.execute_command(
            "HEXPIREATFIELD",
            key,
            *words.deadline("FIELDS", field, words.unix_seconds(at), condition),
        )

    @overload
    def hpexpireatfield(
        self, key: Value, field: Value, at: UnixTime, *, condition: Condition | None = None
    ) -> Int: ...

    @overload
    def hpexpireatfield(
        self, key: Value, field: Values, at: UnixTime, *, condition: Condition | None = None
    ) -> Ints: ...

    def hpexpireatfield(
        self, key: Value, field: Value | Values, at: UnixTime, *, condition: Condition | None = None
    ) -> Any:
        """Sets the expiry time of hash fields, as Unix time in milliseconds.

        Returns 1 set, 0 condition not met, 2 deleted because the time is past, -2 no such key or
        field.
        """
        return self.execute_command(
            "HPEXPIREATFIELD",
            key,
            *words.deadline("FIELDS", field, words.unix_milliseconds(at), condition),
        )

    @overload
    def httlfield(self, key: Value, field: Value) -> Int: ...

    @overload
    def httlfield(self, key: Value, field: Values) -> Ints: ...

    def httlfield(self, key: Value, field: Value | Values) -> Any:
        """Returns the time to live of hash fields, in seconds.

        Returns the time, -1 no deadline, -2 no such key or field.
        """
        return self.execute_command("HTTLFIELD", key, *words.elements("FIELDS", field))

    @overload
    def hpttlfield(self, key: Value, field: Value) -> Int: ...

    @overload
    def hpttlfield(self, key: Value, field: Values) -> Ints: ...

    def hpttlfield(self, key: Value, field: Value | Values) -> Any:
        """Returns the time to live of hash fields, in milliseconds.

        Returns the time, -1 no deadline, -2 no such key or field.
        """
        return self.execute_command("HPTTLFIELD", key, *words.elements("FIELDS", field))

    @overload
    def hexpiretimefield(self, key: Value, field: Value) -> Int: ...

    @overload
    def hexpiretimefield(self, key: Value, field: Values) -> Ints: ...

    def hexpiretimefield(self, key: Value, field: Value | Values) -> Any:
        """Returns the expiry time of hash fields, as Unix time in seconds.

        Returns the time, -1 no deadline, -2 no such key or field.
        """
        return self.execute_command("HEXPIRETIMEFIELD", key, *words.elements("FIELDS", field))

    @overload
    def hpexpiretimefield(self, key: Value, field: Value) -> Int: ...

    @overload
    def hpexpiretimefield(self, key: Value, field: Values) -> Ints: ...

    def hpexpiretimefield(self, key: Value, field: Value | Values) -> Any:
        """Returns the expiry time of hash fields, as Unix time in milliseconds.

        Returns the time, -1 no deadline, -2 no such key or field.
        """
        return self.execute_command("HPEXPIRETIMEFIELD", key, *words.elements("FIELDS", field))

    @overload
    def hpersistfield(self, key: Value, field: Value) -> Int: ...

    @overload
    def hpersistfield(self, key: Value, field: Values) -> Ints: ...

    def hpersistfield(self, key: Value, field: Value | Values) -> Any:
        """Removes the deadline of hash fields.

        Returns 1 removed, -1 had none, -2 no such key or field.
        """
        return self.execute_command("HPERSISTFIELD", key, *words.elements("FIELDS", field))

    @overload
    def sexpiremember(
        self, key: Value, member: Value, ttl: Ttl, *, condition: Condition | None = None
    ) -> Int: ...

    @overload
    def sexpiremember(
        self, key: Value, member: Values, ttl: Ttl, *, condition: Condition | None = None
    ) -> Ints: ...

    def sexpiremember(
        self, key: Value, member: Value | Values, ttl: Ttl, *, condition: Condition | None = None
    ) -> Any:
        """Sets the time to live of set members, in seconds.

        Returns 1 set, 0 condition not met, 2 deleted because the time is past, -2 no such key or
        member.
        """
        return self.execute_command(
            "SEXPIREMEMBER", key, *words.deadline("MEMBERS", member, words.seconds(ttl), condition)
        )

    @overload
    def spexpiremember(
        self, key: Value, member: Value, ttl: Ttl, *, condition: Condition | None = None
    ) -> Int: ...

    @overload
    def spexpiremember(
        self, key: Value, member: Values, ttl: Ttl, *, condition: Condition | None = None
    ) -> Ints: ...

    def spexpiremember(
        self, key: Value, member: Value | Values, ttl: Ttl, *, condition: Condition | None = None
    ) -> Any:
        """Sets the time to live of set members, in milliseconds.

        Returns 1 set, 0 condition not met, 2 deleted because the time is past, -2 no such key or
        member.
        """
        return self.execute_command(
            "SPEXPIREMEMBER",
            key,
            *words.deadline("MEMBERS", member, words.milliseconds(ttl), condition),
        )

    @overload
    def sexpireatmember(
        self, key: Value, member: Value, at: UnixTime, *, condition: Condition | None = None
    ) -> Int: ...

    @overload
    def sexpireatmember(
        self, key: Value, member: Values, at: UnixTime, *, condition: Condition | None = None
    ) -> Ints: ...

    def sexpireatmember(
        self,
        key: Value,
        member: Value | Values,
        at: UnixTime,
        *,
        condition: Condition | None = None,
    ) -> Any:
        """Sets the expiry time of set members, as Unix time in seconds.

        Returns 1 set, 0 condition not met, 2 deleted because the time is past, -2 no such key or
        member.
        """
        return self.execute_command(
            "SEXPIREATMEMBER",
            key,
            *words.deadline("MEMBERS", member, words.unix_seconds(at), condition),
        )

    @overload
    def spexpireatmember(
        self, key: Value, member: Value, at: UnixTime, *, condition: Condition | None = None
    ) -> Int: ...

    @overload
    def spexpireatmember(
        self, key: Value, member: Values, at: UnixTime, *, condition: Condition | None = None
    ) -> Ints: ...

    def spexpireatmember(
        self,
        key: Value,
        member: Value | Values,
        at: UnixTime,
        *,
        condition: Condition | None = None,
    ) -> Any:
        """Sets the expiry time of set members, as Unix time in milliseconds.

        Returns 1 set, 0 condition not met, 2 deleted because the time is past, -2 no such key or
        member.
        """
        return self.execute_command(
            "SPEXPIREATMEMBER",
            key,
            *words.deadline("MEMBERS", member, words.unix_milliseconds(at), condition),
        )

    @overload
    def sttlmember(self, key: Value, member: Value) -> Int: ...

    @overload
    def sttlmember(self, key: Value, member: Values) -> Ints: ...

    def sttlmember(self, key: Value, member: Value | Values) -> Any:
        """Returns the time to live of set members, in seconds.

        Returns the time, -1 no deadline, -2 no such key or member.
        """
        return self.execute_command("STTLMEMBER", key, *words.elements("MEMBERS", member))

    @overload
    def spttlmember(self, key: Value, member: Value) -> Int: ...

    @overload
    def spttlmember(self, key: Value, member: Values) -> Ints: ...

    def spttlmember(self, key: Value, member: Value | Values) -> Any:
        """Returns the time to live of set members, in milliseconds.

        Returns the time, -1 no deadline, -2 no such key or member.
        """
        return self.execute_command("SPTTLMEMBER", key, *words.elements("MEMBERS", member))

    @overload
    def sexpiretimemember(self, key: Value, member: Value) -> Int: ...

    @overload
    def sexpiretimemember(self, key: Value, member: Values) -> Ints: ...

    def sexpiretimemember(self, key: Value, member: Value | Values) -> Any:
        """Returns the expiry time of set members, as Unix time in seconds.

        Returns the time, -1 no deadline, -2 no such key or member.
        """
        return self.execute_command("SEXPIRETIMEMEMBER", key, *words.elements("MEMBERS", member))

    @overload
    def spexpiretimemember(self, key: Value, member: Value) -> Int: ...

    @overload
    def spexpiretimemember(self, key: Value, member: Values) -> Ints: ...

    def spexpiretimemember(self, key: Value, member: Value | Values) -> Any:
        """Returns the expiry time of set members, as Unix time in milliseconds.

        Returns the time, -1 no deadline, -2 no such key or member.
        """
        return self.execute_command("SPEXPIRETIMEMEMBER", key, *words.elements("MEMBERS", member))

    @overload
    def spersistmember(self, key: Value, member: Value) -> Int: ...

    @overload
    def spersistmember(self, key: Value, member: Values) -> Ints: ...

    def spersistmember(self, key: Value, member: Value | Values) -> Any:
        """Removes the deadline of set members.

        Returns 1 removed, -1 had none, -2 no such key or member.
        """
        return self.execute_command("SPERSISTMEMBER", key, *words.elements("MEMBERS", member))

    @overload
    def zexpiremember(
        self, key: Value, member: Value, ttl: Ttl, *, condition: Condition | None = None
    ) -> Int: ...

    @overload
    def zexpiremember(
        self, key: Value, member: Values, ttl: Ttl, *, condition: Condition | None = None
    ) -> Ints: ...

    def zexpiremember(
        self, key: Value, member: Value | Values, ttl: Ttl, *, condition: Condition | None = None
    ) -> Any:
        """Sets the time to live of sorted-set members, in seconds.

        Returns 1 set, 0 condition not met, 2 deleted because the time is past, -2 no such key or
        member.
        """
        return self.execute_command(
            "ZEXPIREMEMBER", key, *words.deadline("MEMBERS", member, words.seconds(ttl), condition)
        )

    @overload
    def zpexpiremember(
        self, key: Value, member: Value, ttl: Ttl, *, condition: Condition | None = None
    ) -> Int: ...

    @overload
    def zpexpiremember(
        self, key: Value, member: Values, ttl: Ttl, *, condition: Condition | None = None
    ) -> Ints: ...

    def zpexpiremember(
        self, key: Value, member: Value | Values, ttl: Ttl, *, condition: Condition | None = None
    ) -> Any:
        """Sets the time to live of sorted-set members, in milliseconds.

        Returns 1 set, 0 condition not met, 2 deleted because the time is past, -2 no such key or
        member.
        """
        return self.execute_command(
            "ZPEXPIREMEMBER",
            key,
            *words.deadline("MEMBERS", member, words.milliseconds(ttl), condition),
        )

    @overload
    def zexpireatmember(
        self, key: Value, member: Value, at: UnixTime, *, condition: Condition | None = None
    ) -> Int: ...

    @overload
    def zexpireatmember(
        self, key: Value, member: Values, at: UnixTime, *, condition: Condition | None = None
    ) -> Ints: ...

    def zexpireatmember(
        self,
        key: Value,
        member: Value | Values,
        at: UnixTime,
        *,
        condition: Condition | None = None,
    ) -> Any:
        """Sets the expiry time of sorted-set members, as Unix time in seconds.

        Returns 1 set, 0 condition not met, 2 deleted because the time is past, -2 no such key or
        member.
        """
        return self.execute_command(
            "ZEXPIREATMEMBER",
            key,
            *words.deadline("MEMBERS", member, words.unix_seconds(at), condition),
        )

    @overload
    def zpexpireatmember(
        self, key: Value, member: Value, at: UnixTime, *, condition: Condition | None = None
    ) -> Int: ...

    @overload
    def zpexpireatmember(
        self, key: Value, member: Values, at: UnixTime, *, condition: Condition | None = None
    ) -> Ints: ...

    def zpexpireatmember(
        self,
        key: Value,
        member: Value | Values,
        at: UnixTime,
        *,
        condition: Condition | None = None,
    ) -> Any:
        """Sets the expiry time of sorted-set members, as Unix time in milliseconds.

        Returns 1 set, 0 condition not met, 2 deleted because the time is past, -2 no such key or
        member.
        """
        return self.execute_command(
            "ZPEXPIREATMEMBER",
            key,
            *words.deadline("MEMBERS", member, words.unix_milliseconds(at), condition),
        )

    @overload
    def zttlmember(self, key: Value, member: Value) -> Int: ...

    @overload
    def zttlmember(self, key: Value, member: Values) -> Ints: ...

    def zttlmember(self, key: Value, member: Value | Values) -> Any:
        """Returns the time to live of sorted-set members, in seconds.

        Returns the time, -1 no deadline, -2 no such key or member.
        """
        return self.execute_command("ZTTLMEMBER", key, *words.elements("MEMBERS", member))

    @overload
    def zpttlmember(self, key: Value, member: Value) -> Int: ...

    @overload
    def zpttlmember(self, key: Value, member: Values) -> Ints: ...

    def zpttlmember(self, key: Value, member: Value | Values) -> Any:
        """Returns the time to live of sorted-set members, in milliseconds.

        Returns the time, -1 no deadline, -2 no such key or member.
        """
        return self.execute_command("ZPTTLMEMBER", key, *words.elements("MEMBERS", member))

    @overload
    def zexpiretimemember(self, key: Value, member: Value) -> Int: ...

    @overload
    def zexpiretimemember(self, key: Value, member: Values) -> Ints: ...

    def zexpiretimemember(self, key: Value, member: Value | Values) -> Any:
        """Returns the expiry time of sorted-set members, as Unix time in seconds.

        Returns the time, -1 no deadline, -2 no such key or member.
        """
        return self.execute_command("ZEXPIRETIMEMEMBER", key, *words.elements("MEMBERS", member))

    @overload
    def zpexpiretimemember(self, key: Value, member: Value) -> Int: ...

    @overload
    def zpexpiretimemember(self, key: Value, member: Values) -> Ints: ...

    def zpexpiretimemember(self, key: Value, member: Value | Values) -> Any:
        """Returns the expiry time of sorted-set members, as Unix time in milliseconds.

        Returns the time, -1 no deadline, -2 no such key or member.
        """
        return self.execute_command("ZPEXPIRETIMEMEMBER", key, *words.elements("MEMBERS", member))

    @overload
    def zpersistmember(self, key: Value, member: Value) -> Int: ...

    @overload
    def zpersistmember(self, key: Value, member: Values) -> Ints: ...

    def zpersistmember(self, key: Value, member: Value | Values) -> Any:
        """Removes the deadline of sorted-set members.

        Returns 1 removed, -1 had none, -2 no such key or member.
        """
        return self.execute_command("ZPERSISTMEMBER", key, *words.elements("MEMBERS", member))

    @overload
    def lexpireelement(
        self, key: Value, element: Value, ttl: Ttl, *, condition: Condition | None = None
    ) -> Int: ...

    @overload
    def lexpireelement(
        self, key: Value, element: Values, ttl: Ttl, *, condition: Condition | None = None
    ) -> Ints: ...

    def lexpireelement(
        self, key: Value, element: Value | Values, ttl: Ttl, *, condition: Condition | None = None
    ) -> Any:
        """Sets the time to live of list elements, in seconds.

        Returns 1 set, 0 condition not met, 2 deleted because the time is past, -2 no such key or
        element.
        """
        return self.execute_command(
            "LEXPIREELEMENT",
            key,
            *words.deadline("ELEMENTS", element, words.seconds(ttl), condition),
        )

    @overload
    def lpexpireelement(
        self, key: Value, element: Value, ttl: Ttl, *, condition: Condition | None = None
    ) -> Int: ...

    @overload
    def lpexpireelement(
        self, key: Value, element: Values, ttl: Ttl, *, condition: Condition | None = None
    ) -> Ints: ...

    def lpexpireelement(
        self, key: Value, element: Value | Values, ttl: Ttl, *, condition: Condition | None = None
    ) -> Any:
        """Sets the time to live of list elements, in milliseconds.

        Returns 1 set, 0 condition not met, 2 deleted because the time is past, -2 no such key or
        element.
        """
        return self.execute_command(
            "LPEXPIREELEMENT",
            key,
            *words.deadline("ELEMENTS", element, words.milliseconds(ttl), condition),
        )

    @overload
    def lexpireatelement(
        self, key: Value, element: Value, at: UnixTime, *, condition: Condition | None = None
    ) -> Int: ...

    @overload
    def lexpireatelement(
        self, key: Value, element: Values, at: UnixTime, *, condition: Condition | None = None
    ) -> Ints: ...

    def lexpireatelement(
        self,
        key: Value,
        element: Value | Values,
        at: UnixTime,
        *,
        condition: Condition | None = None,
    ) -> Any:
        """Sets the expiry time of list elements, as Unix time in seconds.

        Returns 1 set, 0 condition not met, 2 deleted because the time is past, -2 no such key or
        element.
        """
        return self.execute_command(
            "LEXPIREATELEMENT",
            key,
            *words.deadline("ELEMENTS", element, words.unix_seconds(at), condition),
        )

    @overload
    def lpexpireatelement(
        self, key: Value, element: Value, at: UnixTime, *, condition: Condition | None = None
    ) -> Int: ...

    @overload
    def lpexpireatelement(
        self, key: Value, element: Values, at: UnixTime, *, condition: Condition | None = None
    ) -> Ints: ...

    def lpexpireatelement(
        self,
        key: Value,
        element: Value | Values,
        at: UnixTime,
        *,
        condition: Condition | None = None,
    ) -> Any:
        """Sets the expiry time of list elements, as Unix time in milliseconds.

        Returns 1 set, 0 condition not met, 2 deleted because the time is past, -2 no such key or
        element.
        """
        return self.execute_command(
            "LPEXPIREATELEMENT",
            key,
            *words.deadline("ELEMENTS", element, words.unix_milliseconds(at), condition),
        )

    @overload
    def lttlelement(self, key: Value, element: Value) -> Int: ...

    @overload
    def lttlelement(self, key: Value, element: Values) -> Ints: ...

    def lttlelement(self, key: Value, element: Value | Values) -> Any:
        """Returns the time to live of list elements, in seconds.

        Returns the time, -1 no deadline, -2 no such key or element.
        """
        return self.execute_command("LTTLELEMENT", key, *words.elements("ELEMENTS", element))

    @overload
    def lpttlelement(self, key: Value, element: Value) -> Int: ...

    @overload
    def lpttlelement(self, key: Value, element: Values) -> Ints: ...

    def lpttlelement(self, key: Value, element: Value | Values) -> Any:
        """Returns the time to live of list elements, in milliseconds.

        Returns the time, -1 no deadline, -2 no such key or element.
        """
        return self.execute_command("LPTTLELEMENT", key, *words.elements("ELEMENTS", element))

    @overload
    def lexpiretimeelement(self, key: Value, element: Value) -> Int: ...

    @overload
    def lexpiretimeelement(self, key: Value, element: Values) -> Ints: ...

    def lexpiretimeelement(self, key: Value, element: Value | Values) -> Any:
        """Returns the expiry time of list elements, as Unix time in seconds.

        Returns the time, -1 no deadline, -2 no such key or element.
        """
        return self.execute_command("LEXPIRETIMEELEMENT", key, *words.elements("ELEMENTS", element))

    @overload
    def lpexpiretimeelement(self, key: Value, element: Value) -> Int: ...

    @overload
    def lpexpiretimeelement(self, key: Value, element: Values) -> Ints: ...

    def lpexpiretimeelement(self, key: Value, element: Value | Values) -> Any:
        """Returns the expiry time of list elements, as Unix time in milliseconds.

        Returns the time, -1 no deadline, -2 no such key or element.
        """
        return self.execute_command(
            "LPEXPIRETIMEELEMENT", key, *words.elements("ELEMENTS", element)
        )

    @overload
    def lpersistelement(self, key: Value, element: Value) -> Int: ...

    @overload
    def lpersistelement(self, key: Value, element: Values) -> Ints: ...

    def lpersistelement(self, key: Value, element: Value | Values) -> Any:
        """Removes the deadline of list elements.

        Returns 1 removed, -1 had none, -2 no such key or element.
        """
        return self.execute_command("LPERSISTELEMENT", key, *words.elements("ELEMENTS", element))
