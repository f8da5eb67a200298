"""Processes: the order of starting and ending, signals, the workers that share a port, and the
embedded Redis.

`app` builds all parts and is the only module that knows them all. `cli` reads the flags and the
settings file.
"""
