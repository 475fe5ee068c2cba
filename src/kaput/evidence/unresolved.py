"""Records attempts whose producer died before it knew their outcome, while recording continues.

Not here: doing so after recording has ended (sealing.py).
"""

from __future__ import annotations

import numpy as np

from kaput.evidence.attempts import SUFFIX, read_attempts
from kaput.evidence.folder import RunFolder
from kaput.evidence.recorder import Recorder, Values
from kaput.evidence.schemas import TABLES
from kaput.evidence.sealing import UNRESOLVED, whole_batches, without_outcome


def record_unresolved(folder: RunFolder) -> int:
    """Records these attempts as `unknown`, and removes the attempts files. Returns their number.

    No producer may be running. May be interrupted and repeated. Raises EvidenceError naming the file,
    OSError.
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
            unresolved = without_outcome(recorded, len(times))
            with Recorder(folder.path, "sends", writer, attempts.cluster) as recorder:
                rows: dict[str, Values] = {
                    "producer": attempts.producer,
                    "seq": unresolved,
                    "topic": attempts.topic,
                    "attempt_ns": times[unresolved],
                    "outcome": "unknown",
                    "error": UNRESOLVED,
                }
                recorder.batch(len(unresolved), rows)
            found += len(unresolved)
        path.unlink()
    return found
