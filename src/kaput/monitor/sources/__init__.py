"""Sources of samples.

cluster_state.py   a cluster's state: one poll of all its brokers, by the other modules here
polling.py         polls in a thread, and reports the age of the last answer
"""
