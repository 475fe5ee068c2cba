"""The doctor: what of a cluster's settings and state will lose messages or stop the service."""
