"""What must agree where a client is any program (`client: command`): every mistake, with its path.

Called by scenario.py, groups.py and members.py.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from kaput.scenario.groups import Group
from kaput.scenario.model import Producers
from kaput.scenario.source import DataPath

Found = Iterator[tuple[DataPath, str]]

# Keys that kaput's own member follows; another program decides these itself.
_OF_OWN_MEMBERS = ("assignor", "static", "commit", "commit_mode", "commit_every", "processing")
UNHITTABLE = "faults hit kaput's own clients, not other programs; leave out client: command, or the fault"


def check_command(block: Producers | Group) -> Found:
    """The mistakes of one block of producers or one group."""
    if block.client != "command":
        if block.command is not None:
            yield ("command",), f"client: {block.client} takes no command; write client: command"
        return
    if block.command is None or not block.command.strip():
        yield ("client",), "a command line is missing; write command: ... (docs/ADDING_A_CLIENT.md)"
    else:
        try:
            shlex.split(block.command)
        except ValueError as error:
            yield ("command",), f"not a command line ({error})"
    yield from _of_producers(block) if isinstance(block, Producers) else _of_group(block)


def _of_producers(spec: Producers) -> Found:
    if spec.transactions is not None:
        yield ("transactions",), "kaput's own producers send in transactions, other programs do not yet"
    if spec.partitioner not in ("round-robin", Producers.model_fields["partitioner"].default):
        yield (
            ("partitioner",),
            f"{spec.partitioner} is a partitioner of librdkafka; "
            "write round-robin, or leave it to the command",
        )


def _of_group(group: Group) -> Found:
    if group.type == "share":
        yield ("type",), "members of share groups are kaput's own so far; write type: classic"
    for name in _OF_OWN_MEMBERS:
        field = Group.model_fields[name]
        if getattr(group, name) != field.default:
            yield (name.replace("_", "-"),), "the command decides this; leave it out, or use config"
