"""A proxy in front of Redis that gives elements of hashes, sets, sorted sets and lists a time to
live.

Requests are rewritten one for one, and replies are counted and copied. The import
contracts in pyproject.toml name the layers, top to bottom.
"""

__version__ = "0.1.0"
