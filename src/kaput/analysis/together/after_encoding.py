"""After encoding: which partitions there are, who led them, and what each fault reached."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from kaput.analysis import faults, rebalances
from kaput.analysis.account import ACK, Account, Delivered
from kaput.analysis.beginnings import beginnings
from kaput.analysis.inputs import Inputs
from kaput.analysis.lag import drained_ns
from kaput.analysis.names import Place
from kaput.analysis.partitions import Partitions
from kaput.analysis.plan import Plan
from kaput.analysis.questions.recovery import Reached
from kaput.analysis.questions.steps import SECOND_NS
from kaput.analysis.stages.by_message import MessageContext
from kaput.analysis.stages.job import Tables
from kaput.analysis.tally import Tally
from kaput.analysis.timeline import FOREVER_NS, build
from kaput.analysis.together.percentiles import percentiles
from kaput.analysis.waiting import waiting
from kaput.evidence.folder import LedgerRows
from kaput.scenario.vocabulary import NOOP


def account(given: Inputs, sums: Tables) -> Account:
    """The account as far as the sums of encoding tell it."""
    sent = sums["sent"]
    found = Account(
        _partitions(given, sums),
        Tally(
            first_attempt_ns=sent["begin_ns"].min(),  # type: ignore[arg-type]
            last_attempt_ns=sent["last_attempt_ns"].max(),  # type: ignore[arg-type]
            last_ack_ns=sent["last_ack_ns"].max(),  # type: ignore[arg-type]
        ),
    )
    partitions = found.partitions
    # Only the run's own partitions: a fault that moves another moves no message.
    own = [e for e in given.cluster_events if (e["topic"], e["partition"]) in partitions.complete]
    found.timeline = build(own, given.faults, partitions.logged, partitions.ends)
    found.reaches = faults.plan(given.faults, found.timeline, given.replicas)
    found.shared = {(group, member, kind): n for group, member, kind, n in sums["shared"].iter_rows()}
    found.transactions = {
        (producer, state): (n, messages) for producer, state, n, messages in sums["transactions"].iter_rows()
    }
    found.latencies |= percentiles(ACK, sums["acked_us"])
    found.delivered = _delivered(sums["delivered"])
    found.rebalances = rebalances.find(
        given.group_events, given.manifest.ended_ns, _last_delivery_ns(given, found)
    )
    found.per_second = _per_second(sums["steps"])
    places = list(partitions.complete)
    columns = sums["acquired"].columns
    handed = pl.concat([sums["delivered"].select(columns), sums["acquired"]])
    found.beginnings = beginnings(given, places, handed)
    found.waiting = waiting(given, found.beginnings, places)
    found.drained_ns = _drained_ns(given)
    return found


def _drained_ns(given: Inputs) -> dict[str, int]:
    """By fault, see lag.drained_ns; what is looked at ends with the next fault."""
    found: dict[str, int] = {}
    begins = [fault.effective_ns for fault in given.faults if fault.effective_ns is not None]
    for fault in given.faults:
        if fault.effective_ns is None or fault.fault == NOOP:
            continue
        until_ns = min((at_ns for at_ns in begins if at_ns > fault.effective_ns), default=FOREVER_NS)
        at_ns = drained_ns(given.samples, fault.effective_ns, until_ns)
        if at_ns is not None:
            found[fault.id] = at_ns
    return found


def _delivered(sums: pl.DataFrame) -> dict[tuple[int, int], Delivered]:
    by_member = sums.group_by("group", "member").agg(pl.col("records").sum(), pl.col("last_ns").max())
    return {(group, member): Delivered(*rest) for group, member, *rest in by_member.iter_rows()}


def _last_delivery_ns(given: Inputs, found: Account) -> dict[str, int]:
    last_ns: dict[str, int] = {}
    for (group, _), row in found.delivered.items():
        name = given.groups[group]
        last_ns[name] = max(row.last_ns, last_ns.get(name, row.last_ns))
    return last_ns


def _per_second(counted: pl.DataFrame) -> dict[str, dict[int, int]]:
    """`counted`: in steps that are no wider than a second."""
    by_second = counted.group_by("what", second=pl.col("at_ns") // SECOND_NS).agg(pl.col("times").sum())
    found: dict[str, dict[int, int]] = {}
    for what, second, n in by_second.select("what", "second", "times").iter_rows():
        found.setdefault(what, {})[second] = n
    return found


def message_context(
    given: Inputs, account: Account, work: Plan, rows: LedgerRows, handed: pl.DataFrame
) -> MessageContext:
    """What the tasks of messages work with. `rows`: what the ledger has; `handed`: see MessageContext."""
    names, partitions = given.names, account.partitions
    topics = range(len(names.topics))
    return MessageContext(
        names,
        work.parts,
        complete={names.code(place) for place, done in partitions.complete.items() if done},
        complete_topics={names.topics.index(topic) for topic, done in partitions.topics().items() if done},
        reads={
            group: topics if wanted is None else [t for t in topics if names.topics[t] in wanted]
            for group, wanted in given.subscribed.items()
        },
        step_ns=work.step_ns,
        reached=list(_reached(given, account)),
        beginnings=account.beginnings,
        waiting=account.waiting,
        committed={
            index for index, isolation in enumerate(given.isolations) if isolation == "read_committed"
        },
        ledger=str(given.evidence.folder.analysis.resolve() / "ledger"),
        handed=handed,
        rows=rows,
    )


def _partitions(given: Inputs, sums: Tables) -> Partitions:
    names, ends, log = given.names, given.ends, sums["log"]
    named = {*given.expected_places, *ends}
    named |= {names.located(code) for table in ("log", "sent") for code in sums[table]["place"].drop_nulls()}
    delivered = {names.located(code) for code in sums["delivered"]["place"].drop_nulls()}
    complete = {
        place: place in ends and ends[place][0] == ends[place][1] for place in sorted(named | delivered)
    }
    logged: dict[Place, dict[int, tuple[int, int]]] = {}
    after_last: dict[Place, int] = {}
    firsts: dict[Place, int] = {}
    for code, epoch, low, high in log.select("place", "epoch", "low", "high").iter_rows():
        place = names.located(code)
        after_last[place] = max(after_last.get(place, 0), high + 1)
        firsts[place] = min(firsts.get(place, low), low)
        if epoch is not None:
            logged.setdefault(place, {})[epoch] = low, high
    return Partitions(
        complete=complete,
        unread=[place for place, done in complete.items() if not done and place in named],
        logged=logged,
        ends={**after_last, **{place: end for place, (end, _) in ends.items()}},
        log_records=int(log["records"].sum()),
        foreign_records=int(log["foreign"].sum()),
        end_offsets_sum=sum(end for end, _ in ends.values()),
        starts=given.starts,
        firsts=firsts,
    )


def _reached(given: Inputs, account: Account) -> Iterator[Reached]:
    """The partitions in which acknowledgements after a fault are looked for: where a leader came of it, under
    that one alone.
    """
    for reach in account.reaches:
        for place, election in reach.places.items():
            if reach.fault.effective_ns is None or (reach.elected and election is None):
                continue
            epoch, at_ns = election if reach.elected and election else (None, None)
            by_epoch = epoch is not None and place in account.partitions.logged
            code = given.names.code(place)
            yield Reached(reach.fault.id, code, reach.fault.effective_ns, epoch if by_epoch else None, at_ns)
