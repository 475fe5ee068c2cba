"""Whether librdkafka takes a client's settings, tried one by one on a client without a cluster.

Another version of confluent-kafka is asked in a process of its own, which runs this file (versions.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, Producer

from kaput.errors import DistributionError
from kaput.scenario.model import Config
from kaput.workload.librdkafka.versions import environment

_QUIET = {"log_level": 0}
_TOGETHER = "Failed to create"  # what a setting alone does not decide, such as session.timeout.ms


def refused(kind: str, settings: Config, version: str | None) -> Mapping[str, str]:
    """Why librdkafka refuses a setting, by name. `kind`: producer or consumer; `version`: of confluent-kafka,
    None for kaput's own. Raises DistributionError if that version cannot be asked.
    """
    if version is None:
        return _tried(kind, settings)
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name],
        input=json.dumps([kind, settings]),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment(version)},
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no error output"])[-1]
        raise DistributionError(f"confluent-kafka {version} cannot be started: {last}")
    answer: dict[str, str] = json.loads(done.stdout)
    return answer


def _tried(kind: str, settings: Config) -> dict[str, str]:
    reasons = {}
    for name, value in settings.items():
        try:
            if kind == "producer":
                Producer({**_QUIET, name: value})
            else:
                Consumer({**_QUIET, "group.id": "kaput", name: value}).close()
        except KafkaException as error:
            if not (reason := str(error.args[0].str())).startswith(_TOGETHER):
                reasons[name] = reason
        except (TypeError, ValueError) as error:
            reasons[name] = str(error)
    return reasons


if __name__ == "__main__":
    json.dump(_tried(*json.load(sys.stdin)), sys.stdout)
