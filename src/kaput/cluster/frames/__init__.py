"""A proxy in front of a node that splits its traffic into requests and responses; for `fault: protocol`."""
