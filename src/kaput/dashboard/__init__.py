"""The dashboard: shows a folder of runs to browsers on this machine. Writes nothing into run folders."""
