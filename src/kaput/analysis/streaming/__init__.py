"""The same questions of a living cluster: a ledger that grows with every micro-batch.

tables.py    rows as they arrive (Arrow) as the frames that runs are made of
arrivals.py  a micro-batch as runs
ledger.py    what became of every message so far; micro-batches go in, totals come out
counts.py    counts and latencies of each second, until the watermark has passed it
state.py     all of that, kept on disk version by version
evidence.py  what clients have recorded since it was last looked at
job.py       the process: Spark reads Kafka, and each micro-batch makes the next version
"""
