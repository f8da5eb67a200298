"""Commands as data: their specs, their routes, the positions of their keys, the scripts they call.

Knows no command by name: those are in the tables of other rooms.
"""
