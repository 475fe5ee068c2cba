"""`kaput watch`: sends messages through a living cluster and follows them with a streaming ledger.

clients.py      the topic with a partition led by each broker, and its keeper
clients.py     the producers and the reader, recorded like those of a run
ledger_job.py  the process of the streaming job (analysis/streaming), restarted when it dies
watching.py    a whole watch, from the first message to the sealed run folder
"""
