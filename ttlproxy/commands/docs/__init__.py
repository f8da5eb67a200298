"""Answers about the commands and the proxy: COMMAND, ACL CAT, INFO and TTLPROXY."""
