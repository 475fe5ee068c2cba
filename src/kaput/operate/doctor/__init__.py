"""The doctor: checks a cluster for settings and states that can lose messages or stop the service."""
