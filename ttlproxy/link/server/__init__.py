"""Facts about a server, and the proxy's own things on it: users, commands, scripts, the shared
state."""
