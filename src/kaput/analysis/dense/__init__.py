"""The ledger's engine: sequence numbers are dense, so messages are counted into arrays instead of joined.

Tasks read Parquet row groups as arrays (columns.py), pack what they hold for each chunk of (producer, range
of seq) (sends.py, log.py, deliveries.py, pack.py), and one task a chunk lays sends, records and deliveries
over each other (messages.py). What concerns no single message is summed on the way (summary.py).
"""
