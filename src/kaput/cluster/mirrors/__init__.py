"""Mirrors between clusters: MirrorMaker 2, its settings and its process, and what it writes about itself."""
