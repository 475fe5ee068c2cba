"""Attempts whose producer died before it knew their outcome, as rows of sends: for recording that goes on.

Where nothing is recorded any more, sealing does it (sealing.py).
"""

from __future__ import annotations

import numpy as np

from kaput.evidence.attempts import SUFFIX, read_attempts
from kaput.evidence.folder import RunFolder
from kaput.evidence.recorder import Recorder, Values
from kaput.evidence.schemas import TABLES
from kaput.evidence.sealing import UNRESOLVED, whole_batches, without_outcome


def record_unresolved(folder: RunFolder) -> int:
    """Records them as `unknown`, and removes the files of attempts; how many. No producer may be running.

    May be interrupted and done again. Raises EvidenceError naming the file, OSError.
    """
    found = 0
    for path in sorted(folder.table("sends").glob(f"*{SUFFIX}")):
        writer = f"{path.stem}-unresolved"
        path.with_name(f"{writer}.arrows").unlink(missing_ok=True)
        attempts = read_attempts(path)
        if attempts is not None:
            times = np.array(attempts.attempt_ns)
            stream = path.with_suffix(".arrows")
            recorded = whole_batches(TABLES["sends"], stream, []) if stream.exists() else ()
            left = without_outcome(recorded, len(times))
            with Recorder(folder.path, "sends", writer, attempts.cluster) as recorder:
                rows: dict[str, Values] = {
                    "producer": attempts.producer,
                    "seq": left,
                    "topic": attempts.topic,
                    "attempt_ns": times[left],
                    "outcome": "unknown",
                    "error": UNRESOLVED,
                }
                recorder.batch(len(left), rows)
            found += len(left)
        path.unlink()
    return found
