"""`kaput watch`: messages go through a living cluster, and a streaming ledger tells what becomes of them.

canary.py    the topic with a partition led by each broker, and who keeps it so
clients.py   the producers and the reader, recorded like those of a run
ledger_job.py  the streaming job (analysis/streaming) as a process that is started again when it dies
watching.py  all of it, from the first message to the sealed run folder
"""
