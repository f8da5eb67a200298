# The types of the methods in elements.py, generated from the command tables by
# `python -m tests.redis_py.elements`.

from typing import Generic, overload

from ttlproxy.redis.replies import Int, Ints
from ttlproxy.redis.words import Condition, Sender, Ttl, UnixTime, Value, Values

class Elements(Sender, Generic[Int, Ints]):
    """ttl: seconds or milliseconds, as the command counts, or a timedelta; at: Unix time, or a
    datetime.
    """

    @overload
    def hexpirefield(
        self, key: Value, field: Value, ttl: Ttl, *, condition: Condition | None = None
    ) -> Int:
        """Sets the time to live of hash fields, in seconds."""

    @overload
    def hexpirefield(
        self, key: Value, field: Values, ttl: Ttl, *, condition: Condition | None = None
    ) -> Ints: ...
    @overload
    def hpexpirefield(
        self, key: Value, field: Value, ttl: Ttl, *, condition: Condition | None = None
    ) -> Int:
        """Sets the time to live of hash fields, in milliseconds."""

    @overload
    def hpexpirefield(
        self, key: Value, field: Values, ttl: Ttl, *, condition: Condition | None = None
    ) -> Ints: ...
    @overload
    def hexpireatfield(
        self, key: Value, field: Value, at: UnixTime, *, condition: Condition | None = None
    ) -> Int:
        """Sets the expiry time of hash fields, as Unix time in seconds."""

    @overload
    def hexpireatfield(
        self, key: Value, field: Values, at: UnixTime, *, condition: Condition | None = None
    ) -> Ints: ...
    @overload
    def hpexpireatfield(
        self, key: Value, field: Value, at: UnixTime, *, condition: Condition | None = None
    ) -> Int:
        """Sets the expiry time of hash fields, as Unix time in milliseconds."""

    @overload
    def hpexpireatfield(
        self, key: Value, field: Values, at: UnixTime, *, condition: Condition | None = None
    ) -> Ints: ...
    @overload
    def httlfield(self, key: Value, field: Value) -> Int:
        """Returns the time to live of hash fields, in seconds."""

    @overload
    def httlfield(self, key: Value, field: Values) -> Ints: ...
    @overload
    def hpttlfield(self, key: Value, field: Value) -> Int:
        """Returns the time to live of hash fields, in milliseconds."""

    @overload
    def hpttlfield(self, key: Value, field: Values) -> Ints: ...
    @overload
    def hexpiretimefield(self, key: Value, field: Value) -> Int:
        """Returns the expiry time of hash fields, as Unix time in seconds."""

    @overload
    def hexpiretimefield(self, key: Value, field: Values) -> Ints: ...
    @overload
    def hpexpiretimefield(self, key: Value, field: Value) -> Int:
        """Returns the expiry time of hash fields, as Unix time in milliseconds."""

    @overload
    def hpexpiretimefield(self, key: Value, field: Values) -> Ints: ...
    @overload
    def hpersistfield(self, key: Value, field: Value) -> Int:
        """Removes the deadline of hash fields."""

    @overload
    def hpersistfield(self, key: Value, field: Values) -> Ints: ...
    @overload
    def sexpiremember(
        self, key: Value, member: Value, ttl: Ttl, *, condition: Condition | None = None
    ) -> Int:
        """Sets the time to live of set members, in seconds."""

    @overload
    def sexpiremember(
        self, key: Value, member: Values, ttl: Ttl, *, condition: Condition | None = None
    ) -> Ints: ...
    @overload
    def spexpiremember(
        self, key: Value, member: Value, ttl: Ttl, *, condition: Condition | None = None
    ) -> Int:
        """Sets the time to live of set members, in milliseconds."""

    @overload
    def spexpiremember(
        self, key: Value, member: Values, ttl: Ttl, *, condition: Condition | None = None
    ) -> Ints: ...
    @overload
    def sexpireatmember(
        self, key: Value, member: Value, at: UnixTime, *, condition: Condition | None = None
    ) -> Int:
        """Sets the expiry time of set members, as Unix time in seconds."""

    @overload
    def sexpireatmember(
        self, key: Value, member: Values, at: UnixTime, *, condition: Condition | None = None
    ) -> Ints: ...
    @overload
    def spexpireatmember(
        self, key: Value, member: Value, at: UnixTime, *, condition: Condition | None = None
    ) -> Int:
        """Sets the expiry time of set members, as Unix time in milliseconds."""

    @overload
    def spexpireatmember(
        self, key: Value, member: Values, at: UnixTime, *, condition: Condition | None = None
    ) -> Ints: ...
    @overload
    def sttlmember(self, key: Value, member: Value) -> Int:
        """Returns the time to live of set members, in seconds."""

    @overload
    def sttlmember(self, key: Value, member: Values) -> Ints: ...
    @overload
    def spttlmember(self, key: Value, member: Value) -> Int:
        """Returns the time to live of set members, in milliseconds."""

    @overload
    def spttlmember(self, key: Value, member: Values) -> Ints: ...
    @overload
    def sexpiretimemember(self, key: Value, member: Value) -> Int:
        """Returns the expiry time of set members, as Unix time in seconds."""

    @overload
    def sexpiretimemember(self, key: Value, member: Values) -> Ints: ...
    @overload
    def spexpiretimemember(self, key: Value, member: Value) -> Int:
        """Returns the expiry time of set members, as Unix time in milliseconds."""

    @overload
    def spexpiretimemember(self, key: Value, member: Values) -> Ints: ...
    @overload
    def spersistmember(self, key: Value, member: Value) -> Int:
        """Removes the deadline of set members."""

    @overload
    def spersistmember(self, key: Value, member: Values) -> Ints: ...
    @overload
    def zexpiremember(
        self, key: Value, member: Value, ttl: Ttl, *, condition: Condition | None = None
    ) -> Int:
        """Sets the time to live of sorted-set members, in seconds."""

    @overload
    def zexpiremember(
        self, key: Value, member: Values, ttl: Ttl, *, condition: Condition | None = None
    ) -> Ints: ...
    @overload
    def zpexpiremember(
        self, key: Value, member: Value, ttl: Ttl, *, condition: Condition | None = None
    ) -> Int:
        """Sets the time to live of sorted-set members, in milliseconds."""

    @overload
    def zpexpiremember(
        self, key: Value, member: Values, ttl: Ttl, *, condition: Condition | None = None
    ) -> Ints: ...
    @overload
    def zexpireatmember(
        self, key: Value, member: Value, at: UnixTime, *, condition: Condition | None = None
    ) -> Int:
        """Sets the expiry time of sorted-set members, as Unix time in seconds."""

    @overload
    def zexpireatmember(
        self, key: Value, member: Values, at: UnixTime, *, condition: Condition | None = None
    ) -> Ints: ...
    @overload
    def zpexpireatmember(
        self, key: Value, member: Value, at: UnixTime, *, condition: Condition | None = None
    ) -> Int:
        """Sets the expiry time of sorted-set members, as Unix time in milliseconds."""

    @overload
    def zpexpireatmember(
        self, key: Value, member: Values, at: UnixTime, *, condition: Condition | None = None
    ) -> Ints: ...
    @overload
    def zttlmember(self, key: Value, member: Value) -> Int:
        """Returns the time to live of sorted-set members, in seconds."""

    @overload
    def zttlmember(self, key: Value, member: Values) -> Ints: ...
    @overload
    def zpttlmember(self, key: Value, member: Value) -> Int:
        """Returns the time to live of sorted-set members, in milliseconds."""

    @overload
    def zpttlmember(self, key: Value, member: Values) -> Ints: ...
    @overload
    def zexpiretimemember(self, key: Value, member: Value) -> Int:
        """Returns the expiry time of sorted-set members, as Unix time in seconds."""

    @overload
    def zexpiretimemember(self, key: Value, member: Values) -> Ints: ...
    @overload
    def zpexpiretimemember(self, key: Value, member: Value) -> Int:
        """Returns the expiry time of sorted-set members, as Unix time in milliseconds."""

    @overload
    def zpexpiretimemember(self, key: Value, member: Values) -> Ints: ...
    @overload
    def zpersistmember(self, key: Value, member: Value) -> Int:
        """Removes the deadline of sorted-set members."""

    @overload
    def zpersistmember(self, key: Value, member: Values) -> Ints: ...
    @overload
    def lexpireelement(
        self, key: Value, element: Value, ttl: Ttl, *, condition: Condition | None = None
    ) -> Int:
        """Sets the time to live of list elements, in seconds."""

    @overload
    def lexpireelement(
        self, key: Value, element: Values, ttl: Ttl, *, condition: Condition | None = None
    ) -> Ints: ...
    @overload
    def lpexpireelement(
        self, key: Value, element: Value, ttl: Ttl, *, condition: Condition | None = None
    ) -> Int:
        """Sets the time to live of list elements, in milliseconds."""

    @overload
    def lpexpireelement(
        self, key: Value, element: Values, ttl: Ttl, *, condition: Condition | None = None
    ) -> Ints: ...
    @overload
    def lexpireatelement(
        self, key: Value, element: Value, at: UnixTime, *, condition: Condition | None = None
    ) -> Int:
        """Sets the expiry time of list elements, as Unix time in seconds."""

    @overload
    def lexpireatelement(
        self, key: Value, element: Values, at: UnixTime, *, condition: Condition | None = None
    ) -> Ints: ...
    @overload
    def lpexpireatelement(
        self, key: Value, element: Value, at: UnixTime, *, condition: Condition | None = None
    ) -> Int:
        """Sets the expiry time of list elements, as Unix time in milliseconds."""

    @overload
    def lpexpireatelement(
        self, key: Value, element: Values, at: UnixTime, *, condition: Condition | None = None
    ) -> Ints: ...
    @overload
    def lttlelement(self, key: Value, element: Value) -> Int:
        """Returns the time to live of list elements, in seconds."""

    @overload
    def lttlelement(self, key: Value, element: Values) -> Ints: ...
    @overload
    def lpttlelement(self, key: Value, element: Value) -> Int:
        """Returns the time to live of list elements, in milliseconds."""

    @overload
    def lpttlelement(self, key: Value, element: Values) -> Ints: ...
    @overload
    def lexpiretimeelement(self, key: Value, element: Value) -> Int:
        """Returns the expiry time of list elements, as Unix time in seconds."""

    @overload
    def lexpiretimeelement(self, key: Value, element: Values) -> Ints: ...
    @overload
    def lpexpiretimeelement(self, key: Value, element: Value) -> Int:
        """Returns the expiry time of list elements, as Unix time in milliseconds."""

    @overload
    def lpexpiretimeelement(self, key: Value, element: Values) -> Ints: ...
    @overload
    def lpersistelement(self, key: Value, element: Value) -> Int:
        """Removes the deadline of list elements."""

    @overload
    def lpersistelement(self, key: Value, element: Values) -> Ints: ...
