"""What a client can ask of the commands and of the proxy: COMMAND, ACL CAT, INFO and TTLPROXY."""
