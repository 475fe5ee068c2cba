"""A cluster as its owner's files describe it: server.properties, a Compose file, or Strimzi's resources."""
