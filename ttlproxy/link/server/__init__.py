"""The proxy's knowledge of a server, and what we put there: users, commands, scripts, the shared
state."""
