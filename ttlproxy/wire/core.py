"""The functions that read the bytes of every request and reply: compiled, or else in Python.

`_core.c` is built where there is a compiler. Without it, or with TTLPROXY_PURE=1 in the
environment, `twin.py` is taken, which gives the same results in more time.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ttlproxy.wire.twin import (
        Table,
        cut,
        index_name,
        reply_ends,
        request_ends,
        whole_replies,
    )

    IS_COMPILED: bool
else:
    try:
        if os.environ.get("TTLPROXY_PURE") == "1":
            raise ImportError
        from ttlproxy.wire import _core as _taken
    except ImportError:
        from ttlproxy.wire import twin as _taken

    IS_COMPILED = _taken.__name__.endswith("._core")
    Table, cut, index_name = _taken.Table, _taken.cut, _taken.index_name
    reply_ends, request_ends = _taken.reply_ends, _taken.request_ends
    whole_replies = _taken.whole_replies

__all__ = [
    "IS_COMPILED",
    "Table",
    "cut",
    "index_name",
    "reply_ends",
    "request_ends",
    "whole_replies",
]
