"""What the proxy knows of a server, and what it puts there: users, commands, scripts, the shared
state."""
