"""Long runs on a Redis Cluster of six servers: slots move, masters fail, and clients go on."""
