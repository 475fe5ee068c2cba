"""The analysis of a living cluster: a ledger that grows with every micro-batch, asked the same questions.

arrivals.py  converts a micro-batch (Arrow) to runs
ledger.py    the fate of every message so far: takes micro-batches, returns totals
counts.py    counts and latencies per window, until the watermark has passed it
state.py     all of that, kept on disk version by version
state_update.py  grows it, with what clients have recorded, and writes status.json
job.py       the process: Spark reads Kafka, and each micro-batch makes the next version
"""
