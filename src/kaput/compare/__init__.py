"""Compares two clusters: is the mirror identical in all ways that matter?

`comparing.py` shows all steps on one page: both clusters are described (`description.py`), their topics
paired (`comparing.py`), every partition is read into Parquet (`reading.py`), records are matched
(`matching.py`) and counted (`positions.py`, `records.py`, `records.py`), and each aspect becomes a row of
the answer (`answer.py`).
"""
