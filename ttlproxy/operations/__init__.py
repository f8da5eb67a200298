"""An operator's tools beside the proxy: doctor, purge, healthcheck, and the rights of users.

Knows Redis and what proxies keep there. Serves no client.
"""
