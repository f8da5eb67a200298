"""A table of commands for each data type of Redis, and for whole keys."""
