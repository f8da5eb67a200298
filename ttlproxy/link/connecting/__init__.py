"""How a server is found and reached, and how it is asked and heard.

`discovery`, `sentinels` and `address_watch` find the address; `connections` makes connections of
redis-py, `pipeline` and `single_calls` ask through them; `push_socket` and `asking_socket` hear
what Redis says unasked. `server_identity` and `known_server` say which server it is,
`refusals` counts what it refuses. Knows nothing of managed keys.
"""
