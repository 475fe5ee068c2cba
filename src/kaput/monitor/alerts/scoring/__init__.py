"""Plays alert rules over recorded runs and scores them: what they would have announced, how soon, and whether
rightly.

    run folder -> samples, then episodes (recordings.py) --> score and tuning (score.py)
    findings   -> what each fault needed (score.py) ---------'
"""
