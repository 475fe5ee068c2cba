"""A second opinion on findings: recomputed from a run folder's raw tables, by the glossary alone.

Nothing here imports kaput. What may be read in several ways is computed in each of them.
"""
