"""Two clusters compared: is the mirror identical in all ways that matter?

`comparing.py` is the whole way on one page: both clusters are described (`description.py`), their topics
paired (`pairing.py`), every partition is read into Parquet (`reading.py`), records are matched
(`matching.py`, `rounds.py`, `positions.py`), and every aspect becomes a row of the answer (`answer.py`).
"""
