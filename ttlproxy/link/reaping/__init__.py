"""The calls that find what is due, remove it, and mend deadlines: one module for each.

Knows no sessions, and not when the reaper calls.
"""
