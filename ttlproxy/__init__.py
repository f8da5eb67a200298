"""A proxy before Redis that gives hash fields and set members a time to live.

Requests are rewritten one for one and replies are never touched; the layers are named, top to
bottom, in the import contracts of pyproject.toml.
"""

__version__ = "0.1.0"
