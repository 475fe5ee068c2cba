"""The doctor: settings and states of a cluster that can lose messages or stop the service."""
