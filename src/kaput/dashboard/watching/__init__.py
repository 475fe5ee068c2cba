"""Watches a run that is being recorded, through its folder alone: takes no locks and writes nothing."""
