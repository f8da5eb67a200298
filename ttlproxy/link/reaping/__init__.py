"""The calls that find what is due, remove it, and fix deadlines: one module for each.

Knows no sessions, and not when the reaper calls.
"""
