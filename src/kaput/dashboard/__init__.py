"""The dashboard: a folder of runs, looked at in a browser of this machine. It reads, and writes nothing."""
