"""Processes: what is started in which order, which signals end it, the workers that share a port,
and the embedded Redis.

`app` builds all parts and is the only place that knows them all. Reads no flag and no file of
settings: that is `cli`.
"""
