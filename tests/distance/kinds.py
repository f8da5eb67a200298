"""What a client does through a near proxy, and goes on with through a far one.

Each reply is read before the next request is sent, so each request must meet the effect of those
before it, wherever their proxies stand (docs/decisions/0036-what-all-must-know-is-confirmed.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple


class Step(NamedTuple):
    """is_far: it goes through the far proxy; `words` of the request, where `{}` is a number; reply:
    what must come, None if anything may"""

    is_far: bool
    words: str
    reply: object = None


def _steps(text: str) -> Sequence[Step]:
    found = []
    for line in text.strip().splitlines():
        where, rest = line.split(maxsplit=1)
        words, arrow, reply = rest.partition(" -> ")
        value = (int(reply) if reply.lstrip("-").isdigit() else reply) if arrow else None
        found.append(Step(where == "far", words.strip(), value))
    return found


# By the command that the far proxy gets. The last request tells whether it met the deadline.
KINDS: Final = {
    name: _steps(text)
    for name, text in {
        "HSET": """
            near HSETEX h:{} EX 100 FIELDS 1 f old -> 1
            far  HSET h:{} f new                   -> 0
            near HTTLFIELD h:{} f                  -> -1
        """,
        "HDEL": """
            near HSETEX hd:{} EX 100 FIELDS 2 f old g old -> 1
            far  HDEL hd:{} f                             -> 1
            near HINCRBY hd:{} f 1                        -> 1
            far  HTTLFIELD hd:{} f                        -> -1
        """,
        "SADD": """
            near SADDEX s:{} 100 m -> 1
            far  SREM s:{} m       -> 1
            far  SADD s:{} m       -> 1
            near STTLMEMBER s:{} m -> -1
        """,
        "ZADD": """
            near ZADDEX z:{} 100 1 m -> 1
            far  ZADD z:{} 2 m       -> 0
            near ZTTLMEMBER z:{} m   -> -1
        """,
        "RPUSH": """
            near RPUSHEX l:{} 100 v    -> 1
            far  LPOP l:{}             -> v
            far  RPUSH l:{} v          -> 1
            near LTTLELEMENT l:{} v    -> -1
        """,
        "SMOVE": """
            near SADDEX m:{} 100 m    -> 1
            far  SMOVE m:{} mt:{} m   -> 1
            near STTLMEMBER mt:{} m   -> 100
        """,
        "LMOVE": """
            near RPUSHEX lm:{} 100 v              -> 1
            far  LMOVE lm:{} lmt:{} LEFT LEFT     -> v
            near LTTLELEMENT lmt:{} v             -> 100
        """,
        "RPOPLPUSH": """
            near RPUSHEX lp:{} 100 v     -> 1
            far  RPOPLPUSH lp:{} lpt:{}  -> v
            near LTTLELEMENT lpt:{} v    -> 100
        """,
        "RENAME": """
            near SADDEX r:{} 100 m    -> 1
            far  RENAME r:{} rt:{}    -> OK
            near STTLMEMBER rt:{} m   -> 100
        """,
        "COPY": """
            near SADDEX c:{} 100 m    -> 1
            far  COPY c:{} ct:{}      -> 1
            near STTLMEMBER ct:{} m   -> 100
        """,
        "SUNIONSTORE": """
            near SADDEX u:{} 100 m         -> 1
            far  SUNIONSTORE u:{} u:{}     -> 1
            near STTLMEMBER u:{} m         -> -1
        """,
        "DEL": """
            near SADDEX d:{} 100 m -> 1
            far  DEL d:{}          -> 1
            near SADD d:{} m       -> 1
            far  STTLMEMBER d:{} m -> -1
        """,
        "SET": """
            near SADDEX t:{} 100 m -> 1
            far  SET t:{} text     -> OK
            far  DEL t:{}          -> 1
            near SADD t:{} m       -> 1
            near STTLMEMBER t:{} m -> -1
        """,
        "MULTI": """
            near HSETEX x:{} EX 100 FIELDS 1 f old -> 1
            far  MULTI                             -> OK
            far  HSET x:{} f new                   -> QUEUED
            far  EXEC
            near HTTLFIELD x:{} f                  -> -1
        """,
        "ONWRITE": """
            near ONWRITE w:{} EX 100 -> OK
            far  SADD w:{} m         -> 1
            near STTLMEMBER w:{} m   -> 100
            near ONWRITE w:{} DEL    -> OK
            far  SADD w:{} n         -> 1
            near STTLMEMBER w:{} n   -> -1
        """,
        "EXPIRE": """
            near SADDEX e:{} 100 m   -> 1
            far  EXPIRE e:{} 1000    -> 1
            far  PERSIST e:{}        -> 1
            near STTLMEMBER e:{} m   -> 100
        """,
    }.items()
}
