"""`python -m fuzz.fuzz_evidence --count 10000 --seed 1`: damaged run folders, judged as `kaput analyze` does.

Allowed are findings and errors that name the file. A failure is printed with its case's number, which with
the seed makes the same folder again: `--first NUMBER --count 1`. Judges run in processes of their own: one
that crashes or hangs is started again. They play Spark's part themselves (fakes/in_process.py); some
cases are judged with the real one as well. Run it from the directory `tests`, or with it on
PYTHONPATH; `make fuzz` does.
"""

from __future__ import annotations

import argparse
import json
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kaput.report.render.html import vega_bundle

BOUND_S = {False: 60, True: 600}  # with Spark, whose start and first queries a busy machine may make slow
ALLOWED = ("held", "violated", "inconclusive", "refused")


@dataclass
class Outcome:
    """How many cases ended how; the failures with all that is known of them."""

    ended: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)

    def add(self, answer: dict[str, Any]) -> None:
        self.ended[answer["ended"]] += 1
        if answer["ended"] not in ALLOWED:
            self.failures.append(answer)


class Judge:
    """A process that judges cases until it crashes or hangs."""

    def __init__(self, seed: int, directory: Path, spark: bool) -> None:
        directory.mkdir(parents=True)
        self.directory, self.spark = directory, spark
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fuzz.judging", str(seed), str(directory), *["spark"][:spark]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(directory / "stderr").open("wb"),
            cwd=Path(__file__).parent.parent,
            text=True,
        )
        self.answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.answers.put(line)
        self.answers.put("")

    def ask(self, case: int) -> dict[str, Any]:
        """How a case ended; `crashed` or `hung` where the judge did."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(f"{case}\n")
            self.process.stdin.flush()
        try:
            line = self.answers.get(timeout=BOUND_S[self.spark])
        except queue.Empty:
            return {"case": case, "ended": "hung"}
        if not line:
            said = (self.directory / "stderr").read_text(errors="replace")[-2000:]
            return {"case": case, "ended": f"crashed ({self.process.wait()})", "trace": said}
        return dict(json.loads(line))

    def end(self) -> None:
        """Ends the process, whatever it does."""
        self.process.kill()
        self.process.wait()


def _ask_all(cases: Iterable[int], seed: int, directory: Path, spark: bool) -> Iterator[dict[str, Any]]:
    judge, started = None, 0
    try:
        for case in cases:
            if judge is None:
                judge, started = Judge(seed, directory / f"judge-{started}", spark), started + 1
            answer = judge.ask(case)
            yield answer
            shutil.rmtree(judge.directory / f"case-{case}", ignore_errors=True)
            if answer["ended"] == "hung" or answer["ended"].startswith("crashed"):
                judge.end()
                judge = None
    finally:
        if judge is not None:
            judge.end()


def run(cases: Sequence[int], seed: int, workers: int, said: bool = False, spark: bool = False) -> Outcome:
    """Judges the cases, some at a time."""
    total, lock = Outcome(), threading.Lock()
    vega_bundle()  # cached here: V8, which makes it, reserves more addresses than judges may have

    def work(number: int, directory: Path) -> None:
        for answer in _ask_all(cases[number::workers], seed, directory / str(number), spark):
            with lock:
                total.add(answer)
                if said and answer["ended"] not in ALLOWED:
                    print(json.dumps(answer), flush=True)
                if said and total.ended.total() % 500 == 0:
                    print(total.ended.total(), dict(total.ended), file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="kaput-fuzz-") as directory:
        threads = [threading.Thread(target=work, args=(n, Path(directory))) for n in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--spark-every", type=int, default=200, help="so many cases: one with the real Spark")
    given = parser.parse_args()
    cases = range(given.first, given.first + given.count)
    total = run(cases, given.seed, given.workers, said=True)
    print(f"seed {given.seed}: {total.ended.total()} cases: {dict(total.ended.most_common())}")
    # A sample of the others as well: the real Spark must find what was found without it.
    some = [case for case in cases if case % given.spark_every == 0]
    by_spark = run(some, given.seed, 1, said=True, spark=True)
    print(f"{len(some)} of them with the real Spark: {dict(by_spark.ended.most_common())}")
    return 1 if total.failures or by_spark.failures else 0


if __name__ == "__main__":
    sys.exit(main())
