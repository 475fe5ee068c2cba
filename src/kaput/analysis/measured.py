"""What an account measured, as the findings say it: latencies, the longest silences, rates."""

from __future__ import annotations

from collections.abc import Iterator

from kaput.analysis import slumps
from kaput.analysis.account import Account
from kaput.analysis.inputs import Inputs
from kaput.analysis.names import Names
from kaput.evidence.findings import Rates, Unavailability
from kaput.evidence.findings_parts import Percentiles, ShareMemberFindings
from kaput.evidence.schemas import SHARE_EVENT_KINDS

_MS = 1_000_000


def percentiles(account: Account, what: int) -> Percentiles:
    """One row of the latencies, in ms; nulls where nothing was measured."""
    row = account.latencies.get(what)
    if row is None:
        return Percentiles()
    p50, p99, p999 = (value / 1000 for value in row.p)
    return Percentiles(p50=p50, p99=p99, p999=p999, max=row.longest_us / 1000)


def unavailability(account: Account, names: Names) -> list[Unavailability]:
    """The longest gap of each producer and partition."""
    found = [
        Unavailability(
            producer=row.producer,
            topic=place[0],
            partition=place[1],
            longest_ms=(row.to_ns - row.from_ns) / _MS,
            from_ns=row.from_ns,
            to_ns=row.to_ns,
        )
        for row in account.gaps
        if (place := names.place(row.place)) is not None
    ]
    return sorted(found, key=lambda u: (u.producer, u.topic, u.partition))


def share_members(account: Account, group: int, names: Names) -> list[ShareMemberFindings]:
    """What each member of a share group did, by name; nobody where it is none."""

    def records(member: int, kind: str) -> int:
        return account.shared.get((group, member, SHARE_EVENT_KINDS.index(kind)), 0)

    return [
        ShareMemberFindings(
            member=names.members[member],
            delivered=records(member, "acquired"),
            accepted=records(member, "accepted"),
            released=records(member, "released"),
            rejected=records(member, "rejected"),
            failed=records(member, "failed"),
        )
        for member in sorted({member for of, member, _ in account.shared if of == group})
    ]


def rates(given: Inputs, account: Account) -> Rates:
    """Means over the time from the first attempt to the last, and to the last acknowledgement."""
    tally = account.tally

    def mean(count: int, to_ns: int | None) -> float:
        if tally.first_attempt_ns is None or to_ns is None or to_ns <= tally.first_attempt_ns:
            return 0.0
        return count / ((to_ns - tally.first_attempt_ns) / 1e9)

    return Rates(
        sent_per_s=mean(sum(tally.fates.values()), tally.last_attempt_ns),
        acked_per_s=mean(tally.outcome("acked"), tally.last_ack_ns),
        ordered_per_s=slumps.ordered_per_s(given),
        slumps=slumps.slumps(given, account),
        means=slumps.means(given, account),
    )


def ignored(given: Inputs) -> Iterator[str]:
    """What a reader must know of evidence that was left out."""
    if n := given.evidence.tables["samples"].rows - len(given.samples):
        yield (
            f"{n:,} samples of lag or of offsets were ignored: "
            "their values are below 0, too great, or no numbers at all."
        )
