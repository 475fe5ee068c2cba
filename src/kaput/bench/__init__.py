"""Generates run folders of any size whose findings are known in advance."""
