"""Mirrors between clusters: what each copied, and what is missing in its target."""

from __future__ import annotations

from collections.abc import Callable

from kaput.core import clock, plural
from kaput.evidence.findings_parts import ComparedMirror, MirrorFindings
from kaput.report.document import NOTHING, Block, Bullets, Cell, Section, Term, bad_if_any, seconds, table_of
from kaput.report.sections import JudgedRun


def section(run: JudgedRun) -> Section | None:
    """The section; None without mirrors."""
    mirrors = run.findings.mirrors
    if not mirrors:
        return None
    blocks: list[Block] = [table_of(mirrors, _COLUMNS)]
    if sentences := [sentence for one in mirrors for sentence in _sentences(one)]:
        blocks.append(Bullets(sentences))
    return Section("Mirrors between clusters", blocks, key="mirrors")


_COLUMNS: dict[str, Callable[[MirrorFindings], str | Cell | float | None]] = {
    "mirror": lambda one: one.mirror,
    "acknowledged": lambda one: one.acknowledged,
    "mirrored": lambda one: one.mirrored,
    Term("unmirrored"): lambda one: one.unmirrored,
    Term("RPO at the end", "RPO"): lambda one: (
        "not known" if one.rpo_messages is None else bad_if_any(one.rpo_messages)
    ),
    Term("in seconds", "RPO"): lambda one: "not known" if one.rpo_s is None else seconds(one.rpo_s),
    Term("mirrored twice", "mirrored-twice"): lambda one: one.mirrored_twice,
    Term("reordered", "mirror-reordered"): lambda one: bad_if_any(one.reordered),
    Term("looped"): lambda one: one.looped,
    "greatest sampled lag": lambda one: NOTHING if one.lag_max is None else plural(one.lag_max, "record"),
}


_ENDED = {"stopped": "was stopped", "fault": "was killed"}  # by a fault, or by a plan that could not stop it


def _sentences(one: MirrorFindings) -> list[str]:
    """Facts that the table does not show."""
    found = []
    if one.ended is not None:
        found.append(f"{one.mirror} {_ENDED[one.ended]} at {clock(one.ended_ns)}")
    elif not one.drained:
        found.append(f"{one.mirror} was not confirmed to have copied everything by the end")
    if unknown := one.acknowledged - one.mirrored - one.removed - one.unmirrored:
        found.append(
            f"whether {one.target} has {plural(unknown, 'more message')} is not known: "
            f"its copy was not read to its end"
        )
    if one.removed:
        found.append(
            f"{one.target} has no copy of {plural(one.removed, 'message')} any more: its log begins "
            "later, or a later message of the same key is there"
        )
    if one.restarts:
        found.append(f"{one.mirror} was restarted {plural(one.restarts, 'time')}")
    if one.causes:
        causes = ", ".join(f"{n:,} {cause}" for cause, n in one.causes.items())
        since = one.unmirrored_since_ns
        first = "" if since is None else f"; the first was acknowledged at {clock(since)}"
        found.append(f"{one.mirror} unmirrored by cause: {causes}{first}")
    if one.merged:
        found.append(_merge(one))
    if one.deleted_first_ns is not None:
        n, between = one.causes["deleted"], f"{clock(one.deleted_first_ns)} and {clock(one.deleted_last_ns)}"
        be, them = ("is", "it") if n == 1 else ("are", "them")
        found.append(
            f"{one.mirror}: {plural(n, 'message')} acknowledged between {between} {be} deleted in "
            f"{one.source}, and nothing shows that the mirror had copied {them} before: "
            f"{one.target} lacks {them} for good"
        )
    if one.compared is not None:
        found.append(_compared(one.mirror, one.compared))
    return found


def _compared(mirror: str, found: ComparedMirror) -> str:
    if found.status is None:
        return f"{mirror} could not be compared: {found.why}"
    lost = f": {'; '.join(found.lost)}" if found.lost else ""
    if found.status == "differs by design":
        return f"{mirror} compared (records, settings, positions): nothing is lost, but it {found.status}"
    return f"{mirror} compared record by record: {found.status}{lost}"


def _merge(one: MirrorFindings) -> str:
    """On records that a mirror appended after writes to its target, and on conflicting keys."""
    text = f"{one.mirror} appended {plural(one.merged, 'record')} after messages that only {one.target} has"
    if not one.conflicting_keys:
        return text
    own = one.own_last_keys or 0
    return (
        f"{text}; both clusters wrote to {plural(one.conflicting_keys, 'key')} without seeing each other's "
        f"messages: in {one.target}, the last message is from {one.source} for "
        f"{one.conflicting_keys - own:,} of them, and its own for {own:,}"
    )
