"""Why an acknowledged message is gone: which leader epoch overwrote it, and which replicas had it."""
