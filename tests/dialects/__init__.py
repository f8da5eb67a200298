"""The commands of Redis 8, Valkey, KeyDB, Dragonfly and Garnet."""
