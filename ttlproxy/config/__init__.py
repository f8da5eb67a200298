"""The settings. Knows what a value may be; reads no flag and no environment.

`settings` declares each of them once, with a type of `values`; `upstream_parts` puts the upstream
together. No error of this package repeats text that may contain a password.
"""

from ttlproxy.config.settings import Settings

__all__ = ["Settings"]
