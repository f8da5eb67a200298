"""Single parts: the core, the framing, sessions without sockets."""
