"""Tools for operators: doctor, purge, adopt, the rights of users, import and export of deadlines.

Knows Redis and what proxies keep there. Serves no client.
"""
