"""Message payloads: an identity that says which message it is, and a checksum."""
