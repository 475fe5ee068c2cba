"""The shared counters, and the moment of the N-th attempt over all producers."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kaput.workload.counters import Counters, ThresholdWatch


def test_counters_are_shared_between_processes(tmp_path: Path) -> None:
    """Two mappings of one file share their rows, and totals add up over producers."""
    ours = Counters(tmp_path / "c", 3, create=True)
    theirs = Counters(tmp_path / "c", 3)
    ours.row(0)[0] = 5
    theirs.row(2)[0] = 7
    theirs.row(2)[1] = 1
    assert (ours.total(0), ours.total(1), ours.total(2)) == (12, 1, 0)


@given(st.lists(st.integers(0, 3), min_size=60, max_size=200), st.integers(1, 60))
def test_threshold_is_reached_exactly_at_the_nth_attempt(spec: list[int], wanted: int) -> None:
    """Whoever makes the attempts, somebody looks exactly when the total reaches N."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        counters = Counters(Path(folder) / "c", 4, create=True)
        watches = [ThresholdWatch(counters, [wanted]) for _ in range(4)]
        first = None
        for made, producer in enumerate(spec, start=1):
            row = counters.row(producer)
            row[0] += 1
            if watches[producer].look() and first is None:
                first = made
        assert first == wanted
