"""What a command is, as data: its spec, its route, where its keys stand, which script it calls.

Knows no single command: those are tables in the rooms above.
"""
