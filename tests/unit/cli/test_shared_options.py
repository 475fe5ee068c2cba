"""Options that several verbs share: the cluster that an argument names, and a cluster that kaput starts, as
`kaput run` turns it into changes of the scenario.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fakes.program import app
from kaput.cli.options import as_overrides, cluster_block, naming, standing_cluster, write_text
from kaput.cli.scenario_choice import choose
from kaput.cli.verbs import pairs
from kaput.cluster.kafka_cluster import ClusterAddress
from kaput.errors import UsageError


def block(**given: object) -> dict[str, object]:
    """As the command line gives it."""
    names = ("brokers", "controllers", "racks", "mode", "kafka", "network", "security", "config")
    return cluster_block(**{**dict.fromkeys(names), **given})  # type: ignore[arg-type]


def test_the_options_change_the_scenarios_cluster() -> None:
    """The same as `--set cluster. ...` would."""
    cluster = block(brokers=5, racks=["a", "b"], kafka="3.9.2", config=["num.io.threads=2"])
    (choice,) = choose(["noop"], [], list(as_overrides(cluster)), [])
    spec = choice.scenario.cluster
    assert (spec.brokers, spec.racks, spec.kafka) == (5, ["a", "b"], "3.9.2")
    assert spec.config["num.io.threads"] == yaml.safe_load("2")


def test_a_version_that_looks_like_a_number_is_text() -> None:
    """YAML would read a number; the mistake is another one."""
    options = as_overrides(block(kafka="9.9"))
    with pytest.raises(UsageError, match=r"^--kafka 9\.9: '9\.9' is not a version such as"), naming(options):
        choose(["noop"], [], list(options), [])


def test_options_not_given_change_nothing() -> None:
    assert block() == {} and as_overrides({}) == {}


def test_error_names_the_option_and_not_its_override() -> None:
    options = as_overrides(block(mode="raft"))
    with pytest.raises(UsageError, match="--mode raft: ") as error, naming(options):
        choose(["noop"], [], list(options), [])
    assert "--set" not in str(error.value)


def test_a_wrong_value_is_one_mistake() -> None:
    """The fault needs another network; that this one does not exist is enough."""
    options = as_overrides(block(network="bridge"))
    with pytest.raises(UsageError) as error, naming(options):
        choose(["broker-isolated"], [], list(options), [])
    assert str(error.value) == "--network bridge: 'bridge' is not valid here; write loopback or namespaces"


def test_option_that_is_also_varied_is_rejected() -> None:
    options = as_overrides(block(kafka="3.9.2"))
    with (
        pytest.raises(UsageError, match=r"cluster\.kafka is set by --kafka 3\.9\.2 as well"),
        naming(options),
    ):
        choose(["noop"], [], list(options), ["cluster.kafka=3.9.2,4.3.1"])


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["--brokers", "3"], "--brokers"),
        (["--config", "a=1"], "--config"),
        (["--rack", "a"], "--rack"),
        (["--kafka-home", "/opt"], "--kafka-home"),
    ],
)
def test_an_existing_cluster_cannot_be_changed(words: list[str], option: str) -> None:
    """It is the user's own."""
    with pytest.raises(UsageError, match=f"{option} is for clusters that kaput starts"):
        app(["run", "noop", "--bootstrap-servers", "127.0.0.1:1", *words], standalone_mode=False)


@pytest.mark.parametrize("text", ["a", "=1", " =1"])
def test_a_pair_without_key_or_value_is_refused(text: str) -> None:
    """With the option that it was given to."""
    with pytest.raises(UsageError, match=f"--set {text}: write KEY=VALUE"):
        pairs("--set", [text])


def test_address_is_used_as_the_cluster_name(tmp_path: Path) -> None:
    """With the settings of the file, if one is given."""
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SSL\n")
    assert standing_cluster("h:1,g:2", None) == ClusterAddress("h:1,g:2", "h:1,g:2")
    found = standing_cluster("h:1", config)
    assert found == ClusterAddress("h:1", "h:1", config) and found.access.protocol == "SSL"


@pytest.mark.parametrize(
    ("text", "settings", "told"),
    [
        ("h:none", "", "'h:none' is neither HOST:PORT,... nor a cluster name"),
        ("nobody", "", "no cluster named 'nobody' is running"),
        ("h:1", "ssl.truststore.type=JKS", "kaput only reads PEM"),
        ("h:1", "security.protocol=alone", "is none of PLAINTEXT, SSL"),
    ],
)
def test_invalid_cluster_argument_is_rejected(text: str, settings: str, told: str, tmp_path: Path) -> None:
    """Before anything is done to a cluster."""
    config = tmp_path / "client.properties"
    config.write_text(settings)
    with pytest.raises(UsageError, match=told):
        standing_cluster(text, config)


def test_what_an_option_names_is_written_or_its_mistake_names_the_option(tmp_path: Path) -> None:
    """A file as a whole; what is no file, such as /dev/null, stays what it is, and so does a link to a file:
    /dev/stdout may be one.
    """
    write_text("--html", tmp_path / "page.html", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert (tmp_path / "page.html").read_text() == "new"
    write_text("--html", Path("/dev/null"), "new")
    assert not Path("/dev/null").is_file()
    link = tmp_path / "stdout"
    link.symlink_to(tmp_path / "page.html")
    write_text("--html", link, "through the link")
    assert link.is_symlink() and (tmp_path / "page.html").read_text() == "through the link"
    with pytest.raises(UsageError, match=r"--html \S+/none/page.html: cannot be written \(No such file"):
        write_text("--html", tmp_path / "none" / "page.html", "new")
    with pytest.raises(UsageError, match=r"--html .*: cannot be written"):
        write_text("--html", tmp_path, "new")
