"""Signatures under what clients write down and the proxy carries out later. Does no I/O.

Deferred commands and rules of ONEXPIRE stand in keys that some clients may write. A signature shows
that a proxy has checked what is there; scripts/lib/signed.lua verifies it inside Redis.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from secrets import token_hex
from typing import Final

SIGNATURE_LENGTH: Final = 40
_BLOCK: Final = 64  # of SHA-1, the only hash that Lua has in Redis
_INNER = bytes(byte ^ 0x36 for byte in range(256))
_OUTER = bytes(byte ^ 0x5C for byte in range(256))


def new_secret() -> bytes:
    """32 random bytes, in hex."""
    return token_hex(32).encode()


class Signer:
    """Signs with one secret, which all proxies before a server have to share."""

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    @property
    def secret(self) -> bytes:
        return self._secret

    def adopt(self, secret: bytes) -> None:
        """Another proxy was first: its secret counts."""
        self._secret = secret

    def sign(self, kind: bytes, words: Iterable[bytes]) -> bytes:
        """40 hex digits: HMAC-SHA1 of the words, each with its length before it.

        `kind` says what is signed, so that nothing can be taken for anything else.
        """
        row = b"".join(b"%d:%b" % (len(word), word) for word in (kind, *words))
        return hmac.new(self._secret, row, "sha1").hexdigest().encode()

    def signed(self, signature: bytes, kind: bytes, words: Iterable[bytes]) -> bool:
        """Whether `signature` is what `sign` gives for these."""
        return hmac.compare_digest(signature, self.sign(kind, words))

    @property
    def pads(self) -> tuple[bytes, bytes]:
        """The two keys of HMAC (RFC 2104), as Lua needs them: only for the proxy's own calls."""
        key = self._secret
        if len(key) > _BLOCK:
            key = hashlib.sha1(key).digest()
        key = key.ljust(_BLOCK, b"\0")
        return key.translate(_INNER), key.translate(_OUTER)
