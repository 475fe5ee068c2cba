"""Whether a newer Kafka can be had than the one that is kaput's default, or what came out later for it.

    .venv/bin/python scripts/newest_kafka.py

Asks the repository that jars are fetched from. Exit status: 0 nothing newer, 1 something newer (with the next
step), 4 the repository cannot be asked. A maintainer's tool, for every release of Kafka.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from kaput.cluster.ivy import newest
from kaput.cluster.lock import ADDITIONAL, KAFKA, version_with
from kaput.core import NEWEST_KAFKA
from kaput.errors import LabError
from kaput.java import find_java

MAIN = "kafka_2.13"
Newest = Callable[[str], str]  # the newest release of an artifact of Kafka's


def steps(of: Newest) -> Iterator[str]:
    """A sentence for everything that is newer than what kaput comes with. Raises LabError."""
    found = of(MAIN)
    if _numbers(found) > _numbers(NEWEST_KAFKA):
        yield (
            f"Kafka {found} is out, and the default is {NEWEST_KAFKA}: scripts/lock_jars.py {found}, then "
            "NEWEST_KAFKA in src/kaput/core.py"
        )
    for kind, artifact in ADDITIONAL.items():
        have, found = version_with(kind, NEWEST_KAFKA), of(artifact)
        if _numbers(found) > _numbers(have):
            yield f"{artifact} {found} is out, and kaput has {have}: scripts/lock_jars.py {found} {kind}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(word) for word in version.split(".") if word.isdigit())


def main(of: Newest | None = None) -> int:
    """Prints what is newer; returns the exit status."""
    try:
        java = find_java() if of is None else None
        found = list(steps(of or (lambda artifact: newest(KAFKA, artifact, java))))
    except LabError as error:
        print(f"newest_kafka: {error}", file=sys.stderr)
        return error.exit_status
    for sentence in found or [f"Kafka {NEWEST_KAFKA}, the default, is the newest release that can be had"]:
        print(sentence)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
