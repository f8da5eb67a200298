"""What clients can ask about the commands and the proxy: COMMAND, ACL CAT, INFO and TTLPROXY."""
