"""The source of each script and piece: a file, or a template filled in for one type.

In a template, `{find}` stands for that attribute of the type (core/element_types.py), or for one of
`_pieces`. Knows no prefix and no server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from ttlproxy.core.element_types import HASH, LIST, SET, ZSET, ElementType

# Template -> the scripts, or pieces, that are made from it, and for which type.
_TEMPLATES: Final[Mapping[str, Mapping[str, ElementType]]] = {
    "element_expire": {"set_expire": SET, "zset_expire": ZSET, "list_expire": LIST},
    "element_persist": {
        "hash_persist": HASH,
        "set_persist": SET,
        "zset_persist": ZSET,
        "list_persist": LIST,
    },
    "element_refuse": {"hash_refuse": HASH, "set_refuse": SET, "zset_refuse": ZSET},
    "element_rem": {"hash_del": HASH, "set_rem": SET, "zset_rem": ZSET},
    "element_ttl": {"hash_ttl": HASH, "set_ttl": SET, "zset_ttl": ZSET, "list_ttl": LIST},
    "lib/element": {"lib/hash": HASH, "lib/set": SET, "lib/zset": ZSET},
}
_FOR_TYPE: Final = {
    script: (template, type_)
    for template, scripts in _TEMPLATES.items()
    for script, type_ in scripts.items()
}
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


def script_names(folder: str = "") -> list[str]:
    """Returns the names of all scripts, sorted; with `lib/` those of pieces."""
    entries = (f"{folder}{entry.name}" for entry in files(__package__).joinpath(folder).iterdir())
    found = {name.removesuffix(".lua") for name in entries if name.endswith(".lua")}
    made = {name for name in _FOR_TYPE if name.startswith("lib/") == bool(folder)}
    return sorted(found - _TEMPLATES.keys() | made)


def _pieces(type_: ElementType) -> Mapping[str, str]:
    """The Lua code, and the pieces, that differ by type. Of a hash the server may have deadlines
    itself; a piece that is there already, as that of the type, is not included again."""
    is_hash = type_ is HASH
    return {
        "check": "list_looked" if type_.walks else "check_type",
        "is_found": "type(found) == 'table' and found or found and 1 or 0"
        if type_ is ZSET
        else "found",
        "native": "native" if is_hash else type_.name,
        "native_deadline": "native_deadline" if is_hash else type_.name,
    }


@cache
def source_of(name: str) -> str:
    """Returns the source of a script, or of a piece, `lib/name`."""
    if name in _FOR_TYPE:
        template, type_ = _FOR_TYPE[name]
        values = {**vars(type_), **_pieces(type_)}
        return _PLACEHOLDER.sub(lambda found: str(values[found[1]]), source_of(template))
    return files(__package__).joinpath(f"{name}.lua").read_text("utf-8")
