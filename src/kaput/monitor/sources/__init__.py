"""Where samples come from.

cluster_state.py   a cluster's state: one poll of all its brokers, by the modules beside it
polling.py         polls in a thread, and how old the last answer is
"""
