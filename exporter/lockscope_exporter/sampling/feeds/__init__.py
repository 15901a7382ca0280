"""How a server tells which keys changed: by tracking, by keyspace notifications, or not at all."""
