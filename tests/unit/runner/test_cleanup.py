"""What a run has made in a cluster of others is unmade: that, nothing else, and what cannot be is said."""

from __future__ import annotations

import uuid
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from kaput.cli.run_scenarios import without_evidence
from kaput.errors import EvidenceError, LabError, UsageError
from kaput.evidence.folder import RunFolder
from kaput.runner.cleanup import (
    CleanupJournal,
    CreatedResources,
    PendingHeal,
    clean_up,
    clean_up_folder,
    read_journal,
)

MINE, THEIRS = uuid.uuid4(), uuid.uuid4()


class Cluster:
    """Topics by their ids, groups; `refuses` names what may not be deleted."""

    def __init__(self, cluster_id: str | None = "c", refuses: str = "", mute: bool = False) -> None:
        self.cluster_id, self.refuses, self.mute = cluster_id, refuses, mute
        self.topics = {"mine": MINE, "theirs": THEIRS}
        self.groups = {"billing", "others"}
        self.configs: list[tuple[str, list[str]]] = []
        self.up = {1, 2}

    def refresh(self) -> None:
        if self.mute:
            raise LabError("kafka:9092 cannot be reached: refused")

    def answers(self, broker: int) -> bool:
        return broker in self.up

    # As an admin.
    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def ids(self, names: list[str]) -> dict[str, uuid.UUID]:
        return {name: self.topics[name] for name in names if name in self.topics}

    def delete_topics(self, ids: dict[str, uuid.UUID]) -> None:
        if self.refuses in ids:
            raise LabError(f"topic {self.refuses} cannot be deleted: TOPIC_AUTHORIZATION_FAILED")
        self.topics = {name: found for name, found in self.topics.items() if found not in ids.values()}

    def delete_group(self, group: str, config: list[str]) -> None:
        if group == self.refuses:
            raise LabError(f"group {group} cannot be deleted: NON_EMPTY_GROUP")
        self.groups.discard(group)
        self.configs.append((group, config))


def cleaned(kept: CleanupJournal, cluster: Cluster) -> list[str]:
    """What could not be undone."""
    return clean_up(kept, cluster, lambda _cluster, _timeout_s: cluster)  # type: ignore[arg-type, return-value]


def journal(tmp_path: Path, **more: Any) -> CleanupJournal:
    """Of a run that made a topic and a group."""
    given = {"topics": {"mine": MINE}, "groups": {"billing": []}} | more
    kept = CleanupJournal(tmp_path, CreatedResources(bootstrap_servers="kafka:9092", cluster_id="c", **given))
    kept.note()
    return kept


def test_only_created_topics_and_groups_are_deleted(tmp_path: Path) -> None:
    """Also from the note of it."""
    cluster, kept = Cluster(), journal(tmp_path)
    assert cleaned(kept, cluster) == []
    assert (set(cluster.topics), cluster.groups) == ({"theirs"}, {"others"})
    assert read_journal(tmp_path).nothing


def test_topic_recreated_by_others_is_kept(tmp_path: Path) -> None:
    """It has the name, and another id."""
    cluster, kept = Cluster(), journal(tmp_path, topics={"theirs": MINE}, groups={})
    assert cleaned(kept, cluster) == [] and "theirs" in cluster.topics


def test_topic_of_unknown_origin_is_kept_and_reported(tmp_path: Path) -> None:
    """kaput was killed before it heard whether its own was made; what is not there needs nothing."""
    cluster, kept = Cluster(), journal(tmp_path, topics={"mine": None, "never": None}, groups={})
    (said, hint) = cleaned(kept, cluster)
    assert said.startswith("topic mine may belong to this run or to somebody else")
    assert "kafka-topics --delete --topic mine" in said and "kaput undo RUN_DIR" in hint
    assert "mine" in cluster.topics and list(read_journal(tmp_path).topics) == ["mine"]


@pytest.mark.parametrize("refuses", ["mine", "billing"])
def test_undeletable_resource_stays_in_the_journal(tmp_path: Path, refuses: str) -> None:
    """The rest is deleted all the same; the next time only that is left."""
    cluster, kept = Cluster(refuses=refuses), journal(tmp_path)
    assert cleaned(kept, cluster)[0].startswith(("topic mine cannot", "group billing cannot"))
    left = read_journal(tmp_path)
    assert [*left.topics, *left.groups] == [refuses]
    cluster.refuses = ""
    assert cleaned(kept, cluster) == [] and read_journal(tmp_path).nothing


def test_another_cluster_at_that_address_is_left_alone(tmp_path: Path) -> None:
    """Its topics have nothing to do with the run."""
    cluster, kept = Cluster(cluster_id="d"), journal(tmp_path)
    said = cleaned(kept, cluster)
    assert "topic mine, group billing may be left in kafka:9092: kafka:9092 is now another cluster" in said[0]
    assert "mine" in cluster.topics and not read_journal(tmp_path).nothing


def test_unreachable_cluster_is_reported(tmp_path: Path) -> None:
    """With what is left there."""
    said = cleaned(journal(tmp_path), Cluster(mute=True))
    assert (
        said[0]
        == "topic mine, group billing may be left in kafka:9092: kafka:9092 cannot be reached: refused"
    )


def test_pending_heals_run_first(tmp_path: Path) -> None:
    """In the words that were noted."""
    mark = tmp_path / "mended"
    heals = [
        PendingHeal(step="1-command", brokers=[1], heals=[["touch", str(mark)]]),
        PendingHeal(step="2-command", brokers=[1]),
    ]
    kept = journal(tmp_path, pending_heals=heals)
    assert cleaned(kept, Cluster()) == [] and mark.exists() and read_journal(tmp_path).nothing


FAILS = ["sh", "-c", "echo no such topic: $KAPUT_BROKER >&2; exit 2"]


def pending(**more: Any) -> PendingHeal:
    """A heal that fails."""
    given: dict[str, Any] = {"heals": [FAILS], "environments": [{"KAPUT_BROKER": "1"}], "timeout_s": 0}
    return PendingHeal(step="1-command", brokers=[1], **given | more)


@pytest.mark.parametrize("proof", [{}, {"proves": [["false"]]}])
def test_failed_heal_of_a_fault_that_is_over_is_done(tmp_path: Path, proof: dict[str, Any]) -> None:
    """The heal had run before kaput was killed, and is not one that can be repeated."""
    kept = journal(tmp_path, pending_heals=[pending(**proof)])
    assert cleaned(kept, Cluster()) == [] and read_journal(tmp_path).nothing


@pytest.mark.parametrize("heal", ["true", "false"])
def test_fault_that_lasts_is_not_healed(tmp_path: Path, heal: str) -> None:
    """Whatever the exit status of its heal was."""
    cluster = Cluster()
    cluster.up = {2}
    kept = journal(tmp_path, pending_heals=[pending(heals=[[heal]])])
    assert "broker 1: does not answer, 0 s after the heal" in cleaned(kept, cluster)[0]
    kept = journal(tmp_path, pending_heals=[pending(heals=[[heal]], proves=[["true"]])])
    assert "broker 1: prove does not show that its fault is over" in cleaned(kept, cluster)[0]
    assert not read_journal(tmp_path).nothing


def test_answer_of_another_cluster_heals_nothing(tmp_path: Path) -> None:
    kept = journal(tmp_path, pending_heals=[pending()])
    assert "1-command is not healed" in cleaned(kept, Cluster(cluster_id="d"))[0]


def test_output_of_a_heal_is_kept_and_quoted(tmp_path: Path) -> None:
    """It comes below that of the run's own attempt."""
    output = tmp_path / "commands" / "1-command-heal-1.txt"
    output.parent.mkdir()
    output.write_text("$ heal\n")
    cluster = Cluster()
    cluster.up = set()
    (text,) = cleaned(journal(tmp_path, pending_heals=[pending()]), cluster)
    assert f"ended with exit status 2: no such topic: 1 (its output: {output})" in text
    assert "kaput undo RUN_DIR --forget 1-command" in text
    first, command, printed, ended = output.read_text().splitlines()
    assert first == "$ heal" and command.startswith("$ sh -c ")
    assert printed == "no such topic: 1" and ended.startswith("(exit status 2, ")


def test_heal_that_cannot_be_started_is_reported(tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.up = set()
    kept = journal(tmp_path, pending_heals=[pending(heals=[["no-such-program"]])])
    assert "No such file or directory: 'no-such-program'" in cleaned(kept, cluster)[0]


def test_file_of_a_heal_that_cannot_start_says_why(tmp_path: Path) -> None:
    heal = PendingHeal(step="1-command", brokers=[3], heals=[["/none/heal", "3"]], timeout_s=0)
    (said,) = cleaned(journal(tmp_path, topics={}, groups={}, pending_heals=[heal]), Cluster())
    written = (tmp_path / "commands" / "1-command-heal-3.txt").read_text()
    assert written.startswith("$ /none/heal 3\n") and "[Errno 2]" in written, said
    assert "\n(exit status 127, " in written


def test_pending_heal_can_be_forgotten(tmp_path: Path) -> None:
    kept = journal(tmp_path, pending_heals=[pending()])
    with pytest.raises(UsageError, match="no heal of 2-command is pending; pending: 1-command"):
        kept.forget(["1-command", "2-command"])
    assert not read_journal(tmp_path).nothing
    kept.forget(["1-command"])
    assert read_journal(tmp_path).pending_heals == []


def test_share_group_configs_are_removed(tmp_path: Path) -> None:
    """Those that it was given."""
    cluster = Cluster()
    cleaned(journal(tmp_path, groups={"billing": ["share.auto.offset.reset"]}), cluster)
    assert cluster.configs == [("billing", ["share.auto.offset.reset"])]


def test_folder_without_a_cleanup_journal_is_rejected(tmp_path: Path) -> None:
    """There is nothing to clean up, or nothing that can be read."""
    with pytest.raises(EvidenceError, match="not a run folder"):
        clean_up_folder(tmp_path)
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(
        EvidenceError, match="nothing to undo; name the folder of a run with --bootstrap-servers"
    ):
        clean_up_folder(tmp_path)
    (tmp_path / "made.json").write_text("{}")
    with pytest.raises(EvidenceError, match=r"made\.json: malformed"):
        clean_up_folder(tmp_path)


def test_folder_of_a_run_that_sent_nothing_stays(tmp_path: Path) -> None:
    """After Ctrl-C while the cluster starts: with a sentence, which names what to undo."""
    mine, none = tmp_path / "mine", tmp_path / "none"
    for path in (mine, none):
        path.mkdir()
    journal(mine, topics={"orders": None}).note()
    assert f"kaput undo {mine}" in without_evidence(RunFolder(mine)) and mine.is_dir()
    assert without_evidence(RunFolder(none)) == f"nothing was sent yet; {none} has only logs"
