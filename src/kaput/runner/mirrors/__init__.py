"""The mirrors between the clusters of a run: their processes, their progress, and the positions of groups."""
