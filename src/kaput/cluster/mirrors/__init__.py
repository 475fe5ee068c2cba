"""Mirrors between clusters: MirrorMaker 2, its settings, process, and internal topics."""
