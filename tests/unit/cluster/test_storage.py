"""What Kafka's storage tool leaves behind: where it is known, and the error where it is not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kaput.cluster.distribution import Distribution
from kaput.cluster.properties import NodeLayout, Role
from kaput.cluster.storage import first_records, format_storage, run_storage_tool
from kaput.core import NEWEST_KAFKA
from kaput.errors import BrokerError, UnknownFormat
from kaput.java import Java

META = "meta.properties"
OLDER, NEWER = "bootstrap.checkpoint", "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
JAVA = Java(Path("/nonexistent/java"), 17, "17", "")
KAFKA = Distribution("9.8.7", (), "id")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def formatted(place: Path, *files: str, version: str = "1") -> Path:
    """A directory with these files, as the tool leaves them."""
    place.mkdir(parents=True, exist_ok=True)
    for name in files:
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"first records")
    (place / META).write_text(f"#\n#Fri\nnode.id=1\ndirectory.id=x\nversion={version}\ncluster.id=y\n")
    return place


def storage_tool(monkeypatch: pytest.MonkeyPatch, *files: str) -> None:
    """A storage tool that leaves these files."""

    def run(properties: Path, *_: object) -> None:
        (line,) = [line for line in properties.read_text().splitlines() if line.startswith("log.dirs=")]
        formatted(Path(line.partition("=")[2]), *files)

    monkeypatch.setattr("kaput.cluster.storage.run_storage_tool", run)


def node(tmp_path: Path, role: Role) -> NodeLayout:
    """A node to be formatted."""
    return NodeLayout(3, role, "127.0.0.1", 1, 2, tmp_path / role)


@pytest.mark.parametrize("role", ["broker", "controller", "combined"])
@pytest.mark.parametrize("name", [OLDER, NEWER])
def test_nodes_are_formatted_as_their_version_does(
    name: str, role: Role, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From 4.4 on, nodes that do not vote have no first records."""
    storage_tool(monkeypatch, name)
    layout = node(tmp_path, role)
    format_storage(layout, "a-cluster", KAFKA, JAVA)
    files = {str(path.relative_to(layout.data)) for path in layout.data.rglob("*") if path.is_file()}
    assert files == ({META} if (name, role) == (NEWER, "broker") else {META, name})
    assert "node.id=3\n" in (layout.data / META).read_text()


@pytest.mark.parametrize(
    "files", [(), ("bootstrap.records",), (OLDER, NEWER), (NEWER, "quorum-state"), (f"{NEWER}.2",)], ids=str
)
def test_unknown_layout_is_one_sentence_with_the_versions_that_work(
    files: tuple[str, ...], tmp_path: Path
) -> None:
    """And exit status 4: nothing to judge, and no bug."""
    with pytest.raises(UnknownFormat) as caught:
        first_records(formatted(tmp_path / "data", *files), "9.8.7")
    wrote = ", ".join(sorted((META, *files)))
    assert str(caught.value) == (
        f"the storage tool of Kafka 9.8.7 wrote {wrote}, which kaput does not know: "
        f"it works with Kafka 3.7.0 to {NEWEST_KAFKA}"
    )
    assert caught.value.exit_status == 4


def test_unknown_meta_properties_are_refused(tmp_path: Path) -> None:
    """Ours would be of version 1."""
    with pytest.raises(UnknownFormat, match=r"Kafka 9\.8\.7 wrote a meta\.properties, which kaput does not"):
        first_records(formatted(tmp_path / "data", OLDER, version="2"), "9.8.7")


def test_nothing_unknown_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one asks the tool again."""
    storage_tool(monkeypatch, "else")
    for _ in range(2):
        with pytest.raises(UnknownFormat):
            format_storage(node(tmp_path, "broker"), "a-cluster", KAFKA, JAVA)
    storage_tool(monkeypatch, NEWER)
    format_storage(node(tmp_path, "broker"), "a-cluster", KAFKA, JAVA)


def test_missing_storage_tool_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version that has it in another package is one that kaput does not know."""
    output = "Error: Could not find or load main class kafka.tools.StorageTool"
    monkeypatch.setattr(
        subprocess, "run", lambda words, **_: subprocess.CompletedProcess(words, 1, "", output)
    )
    with pytest.raises(UnknownFormat, match=r"Kafka 9\.8\.7 has its storage tool in another place, which"):
        format_storage(node(tmp_path, "broker"), "a-cluster", KAFKA, JAVA)


def tool_without_feature(tmp_path: Path) -> Java:
    """A Java whose storage tool knows no `new.version`; it writes down how it was called."""
    program = tmp_path / "java"
    program.write_text(
        f"""#!/bin/sh
echo "$*" >> {tmp_path}/calls
case "$*" in *new.version*)
    echo "Unsupported feature: new.version. Supported features are: old.version" >&2; exit 1;;
esac
"""
    )
    program.chmod(0o755)
    return Java(program, 17, "17", "")


def test_feature_that_is_off_may_be_unknown(tmp_path: Path) -> None:
    """Level 0 of what a version does not have is what it does without it."""
    java = tool_without_feature(tmp_path)
    levels = {"new.version": 0, "old.version": 1}
    run_storage_tool(tmp_path / "server.properties", "a-cluster", KAFKA, java, levels)
    first, second = (tmp_path / "calls").read_text().splitlines()
    assert first.endswith(" --feature new.version=0 --feature old.version=1")
    assert "new.version" not in second and second.endswith(" --feature old.version=1")


def test_feature_that_is_on_must_be_known(tmp_path: Path) -> None:
    """Otherwise the run would be about something else."""
    with pytest.raises(BrokerError, match=r"Unsupported feature: new\.version\. "):
        run_storage_tool(tmp_path, "a-cluster", KAFKA, tool_without_feature(tmp_path), {"new.version": 1})
