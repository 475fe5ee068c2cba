"""Plays alert rules over recorded runs and scores them: what they would have announced, how soon, and whether
rightly.

    run folder -> samples (recorded.py) -> episodes (replaying.py) --> score (score.py), tuning (tuning.py)
    findings   -> what each fault needed (ground_truth.py) ------------'

from_messages.py, from_cluster.py, from_groups.py   samples made from tables of evidence
"""
