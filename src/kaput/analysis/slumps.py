"""Whether a run that was ordered at a rate had it: stretches of seconds below, and means by the faults.

From what happened in each second, on the driver. Nothing is said where any producer sends as fast as it can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from kaput.analysis.account import Account
from kaput.analysis.inputs import Inputs
from kaput.evidence.findings_parts import MeanRates, Slump, When
from kaput.scenario.pipes import pipes
from kaput.scenario.vocabulary import NOOP

SHARE = 0.8  # of the ordered rate: what R5 wants an alert below
_SECOND_NS = 1_000_000_000
_WHATS = ("acked", "delivered")


def ordered_per_s(given: Inputs) -> float | None:
    """What all producers together are to send in a second; None where one has no rate, as a pipe has none."""
    if given.scenario is None or pipes(given.scenario):
        return None
    specs = given.scenario.producer_specs()
    rates = [spec.rate for spec in specs if spec.rate != "max"]
    return sum(rates) if rates and len(rates) == len(specs) else None


def slumps(given: Inputs, account: Account) -> list[Slump]:
    """Of acknowledgements, and of deliveries where one group reads."""
    ordered = ordered_per_s(given)
    load = _load(account)
    if ordered is None or not load:
        return []
    whats = _WHATS if len(given.groups) == 1 else _WHATS[:1]
    return [_slump(what, account.per_second.get(what, {}), load, SHARE * ordered) for what in whats]


def _load(account: Account) -> range:
    """The whole seconds between the first attempt and the last."""
    first, last = account.tally.first_attempt_ns, account.tally.last_attempt_ns
    if first is None or last is None:
        return range(0)
    return range(-(-first // _SECOND_NS), last // _SECOND_NS)


def _slump(what: str, counts: Mapping[int, int], load: range, below: float) -> Slump:
    # From one second that had the rate to the next: one time far off makes a gap of years.
    enough = sorted(second for second in _within(counts, load) if counts[second] >= below)
    longest = max(two - one - 1 for one, two in pairwise([load.start - 1, *enough, load.stop]))
    return Slump(what=what, below_per_s=below, longest_s=longest, total_s=len(load) - len(enough))


def means(given: Inputs, account: Account) -> list[MeanRates]:
    """Before the first fault took hold, until the last heal, and after that until the last attempt."""
    if ordered_per_s(given) is None:
        return []
    return [
        MeanRates(
            when=when,
            seconds=len(seconds),
            sent_per_s=_mean(account.per_second.get("attempted", {}), seconds),
            acked_per_s=_mean(account.per_second.get("acked", {}), seconds),
            delivered_per_s=_mean(account.per_second.get("delivered", {}), seconds),
        )
        for when, seconds in _times(given, _load(account))
        if seconds
    ]


def _times(given: Inputs, load: range) -> Iterator[tuple[When, range]]:
    faults = [f for f in given.faults if f.fault != NOOP and f.effective_ns is not None]
    if not faults:
        return
    begin = min(f.effective_ns for f in faults if f.effective_ns is not None) // _SECOND_NS
    end = -(-max(f.healed_ns or given.ended_ns for f in faults) // _SECOND_NS)
    yield "before", range(load.start, max(load.start, min(begin, load.stop)))
    yield "during", range(max(begin, load.start), max(begin, load.start, min(end, load.stop)))
    yield "after", range(max(end, load.start), max(end, load.start, load.stop))


def _mean(counts: Mapping[int, int], seconds: range) -> float:
    return sum(counts[second] for second in _within(counts, seconds)) / len(seconds)


def _within(counts: Mapping[int, int], seconds: range) -> list[int]:
    """Those of the seconds in which anything happened."""
    return [second for second in counts if second in seconds]
