"""What a command is, as data: its spec, its route, where its keys stand, which script it calls.

Knows no command by name: those are in the tables of other rooms.
"""
