"""Checks of consumer groups: their progress, and records they will miss."""

from __future__ import annotations

from collections.abc import Iterator

from kaput.operate.doctor.check import Hit, check
from kaput.operate.doctor.snapshot import Commit, GroupState, Snapshot


@check("KP015", "critical", "the group's oldest unread records are about to be deleted by age")
def _outlived(snapshot: Snapshot) -> Iterator[Hit]:
    for group, commit in _commits(snapshot):
        unread = max(commit.committed, commit.start)
        if commit.aged is not None and unread < min(commit.aged, commit.end):
            yield Hit(
                _place(group, commit),
                f"{min(commit.aged, commit.end) - unread:,} unread records are older than 80 % of "
                "retention.ms",
                f"kaput tool configs --alter --topic {commit.topic} --add-config retention.ms=MORE",
            )


@check("KP019", "warning", "the group has no members, and its lag grows")
def _abandoned(snapshot: Snapshot) -> Iterator[Hit]:
    for group in snapshot.groups:
        lag = sum(commit.lag for commit in group.commits)
        if not group.has_members and lag:
            yield Hit(
                f"group {group.id}",
                f"no member, lag {lag:,}",
                f"start its members, or delete it: kaput tool consumer-groups --delete --group {group.id}",
            )


@check("KP020", "critical", "the group's next records were deleted before it read them")
def _deleted_unread(snapshot: Snapshot) -> Iterator[Hit]:
    for group, commit in _commits(snapshot):
        if commit.committed < commit.start:
            yield Hit(
                _place(group, commit),
                f"committed offset {commit.committed:,}, but the log starts at {commit.start:,}",
                f"decide where to continue: kaput tool consumer-groups --reset-offsets --group {group.id} "
                f"--topic {commit.topic} --to-earliest --dry-run",
            )


def _commits(snapshot: Snapshot) -> Iterator[tuple[GroupState, Commit]]:
    for group in snapshot.groups:
        for commit in group.commits:
            yield group, commit


def _place(group: GroupState, commit: Commit) -> str:
    return f"group {group.id}, {commit.topic}/{commit.partition}"
