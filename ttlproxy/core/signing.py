"""Signatures of what clients ask for and the proxy carries out later. Does no I/O.

Deferred commands and rules of ONEXPIRE are in keys that some clients may write. A signature shows
that a proxy has checked the content; scripts/lib/signed.lua verifies it inside Redis. The values
that proxies store for each other are signed, too.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from secrets import token_hex
from typing import Final

SIGNATURE_LENGTH: Final = 40
# The kinds of what is signed.
RULE: Final = b"rule"
DEFERRED: Final = b"defer"
COMMANDS: Final = b"commands"
_BLOCK: Final = 64  # of SHA-1, the only hash that Lua has in Redis
_INNER = bytes(byte ^ 0x36 for byte in range(256))
_OUTER = bytes(byte ^ 0x5C for byte in range(256))


def new_secret() -> bytes:
    """32 random bytes, in hex."""
    return token_hex(32).encode()


class Signer:
    """Signs with one secret, which all proxies in front of a server must share."""

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    @property
    def secret(self) -> bytes:
        return self._secret

    def adopt(self, secret: bytes) -> None:
        """Takes the secret of another proxy, which was first."""
        self._secret = secret

    def sign(self, kind: bytes, words: Iterable[bytes]) -> bytes:
        """40 hex digits: HMAC-SHA1 of the words, each with its length before it.

        `kind` says what is signed, so that no signature fits another kind.
        """
        row = b"".join(b"%d:%b" % (len(word), word) for word in (kind, *words))
        return hmac.new(self._secret, row, "sha1").hexdigest().encode()

    def signed(self, signature: bytes, kind: bytes, words: Iterable[bytes]) -> bool:
        """Whether `signature` is what `sign` returns for these words."""
        return hmac.compare_digest(signature, self.sign(kind, words))

    @property
    def pads(self) -> tuple[bytes, bytes]:
        """HMAC's inner and outer keys (RFC 2104), for Lua: only for the proxy's own calls."""
        key = self._secret
        if len(key) > _BLOCK:
            key = hashlib.sha1(key).digest()
        key = key.ljust(_BLOCK, b"\0")
        return key.translate(_INNER), key.translate(_OUTER)
