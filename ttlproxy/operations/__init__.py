"""What an operator runs besides the proxy: doctor, purge, healthcheck, and the rights of users.

Knows Redis and what proxies keep there. Serves no client; no proxy has to run for it.
"""
