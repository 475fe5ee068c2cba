"""Defaults from kaput.toml, pyproject.toml and KAPUT_* variables: which counts, and where a mistake is."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer.main

from fakes.program import app
from kaput.cli.scenario_choice import choose
from kaput.cli.settings import KEYS, cluster_defaults, defaults_of, read_settings
from kaput.errors import UsageError


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, worked in from a directory below it, by a user without a file of their own."""
    (tmp_path / "project" / "below").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project" / "below")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for key in KEYS:
        monkeypatch.delenv(f"KAPUT_{key.upper()}", raising=False)
    return tmp_path / "project"


def users_file(project: Path, text: str) -> None:
    path = project.parent / "config" / "kaput" / "kaput.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)


def values() -> dict[str, object]:
    return {key: each.value for key, each in read_settings().items()}


def test_the_nearest_wins(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable over the project's file, that over the user's, setting by setting."""
    users_file(project, 'kafka = "3.9.2"\ncluster = "mine"\nnetwork = "loopback"\n')
    (project / "kaput.toml").write_text('kafka = "4.3.1"\nnetwork = "namespaces"\n')
    monkeypatch.setenv("KAPUT_KAFKA", "4.4.0")
    assert values() == {"kafka": "4.4.0", "network": "namespaces", "cluster": "mine"}


def test_settings_of_pyproject(project: Path) -> None:
    """In [tool.kaput], unless there is a kaput.toml beside it; paths are relative to the file."""
    (project / "pyproject.toml").write_text('[tool.kaput]\nruns = "out"\npage = false\n')
    assert values() == {"runs": str(project / "out"), "page": False}
    (project / "kaput.toml").write_text("page = true\n")
    assert values() == {"page": True}


def test_a_project_that_does_not_use_kaput_is_passed_over(project: Path) -> None:
    """The file may be further up."""
    (project / "kaput.toml").write_text('kafka = "4.3.1"\n')
    for other in ("[tool.ruff]\n", "tool = 3\n"):
        (project / "below" / "pyproject.toml").write_text(other)
        assert values() == {"kafka": "4.3.1"}


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        (
            '[project.scripts]\nkaput = "x:y"\n[tool.other]\nkafka = 1\n[tool.kaput]\nkafka = 4.3\n',
            "6: kafka: write",
        ),
        ("[tool.kaput-other]\nx = 1\n[tool.kaput]\nkafka = 4.3\n", "4: kafka: write"),
        ("[tool]\nkaput-other = 1\nkaput = 3\n", r"3: tool\.kaput is no table"),
        ("[tool]\nkaput = 3\n", r"2: tool\.kaput is no table; write \[tool\.kaput\]"),
        ("[tool]\n[[tool.kaput]]\n", r"2: tool\.kaput is no table"),
        ("[tool]\nkaput = {kafak = 1}\n", "2: no setting kafak"),
    ],
)
def test_a_mistake_in_the_table_of_a_project_names_its_line(project: Path, text: str, mistake: str) -> None:
    """The keys of other tools are no settings."""
    (project / "pyproject.toml").write_text(text)
    with pytest.raises(UsageError, match=rf"pyproject\.toml:{mistake}"):
        values()


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ('runs = "a"\nkafak = "4.3.1"\n', r"kaput.toml:2: no setting kafak; did you mean kafka\?"),
        ('network = "lan"\n', r"kaput.toml:1: network: 'lan' is none of loopback, namespaces"),
        ("\nkafka = 4.3\n", r'kaput.toml:2: kafka: write text in quotes, like "4.3"'),
        ('page = "yes"\n', r"kaput.toml:1: page: write true or false"),
        ("kafka =\n", r"kaput.toml:1:8: not valid TOML: Invalid value$"),
        ('page = true\nkafka = "\n\n', r"kaput.toml:2:10: not valid TOML: Illegal character"),
        ("page = true\nkafka = [\n", r"kaput.toml:2: not valid TOML: Invalid value$"),
    ],
)
def test_a_mistake_names_its_file_and_line(project: Path, text: str, mistake: str) -> None:
    """Before anything starts."""
    (project / "kaput.toml").write_text(text)
    with pytest.raises(UsageError, match=mistake):
        app(["scenarios", "list"], standalone_mode=False)


def test_help_works_with_a_mistake_in_the_file(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Which is when it is needed."""
    (project / "kaput.toml").write_text("nonsense\n")
    app(["--help"], standalone_mode=False)
    assert "Usage: " in capsys.readouterr().out


def test_runs_of_verbs_with_a_directory_of_their_own_stay_in_it(project: Path) -> None:
    """As `runs/matrix` is below `runs`."""
    (project / "kaput.toml").write_text('runs = "out"\ncluster = "mine"\n')
    found = defaults_of(typer.main.get_command(app), read_settings())
    assert found["run"] == {"runs": project / "out"} and found["matrix"]["runs"] == project / "out" / "matrix"
    assert found["fault"]["heal"] == found["status"] == {"cluster": "mine"}
    assert found["up"] == {}  # the name of a new one


@pytest.mark.parametrize(
    ("scenario", "given", "left"),
    [
        ({}, (), {"kafka", "network"}),
        ({"cluster": {"kafka": "4.0.0"}}, (), {"network"}),
        ({"cluster": {}}, ("network",), {"kafka"}),
        ({"cluster": {"mode": "zookeeper"}}, (), {"network"}),
        ({"clusters": {}}, (), set()),
    ],
)
def test_only_what_is_left_open_has_defaults(
    project: Path, scenario: dict[str, object], given: tuple[str, ...], left: set[str]
) -> None:
    """A scenario knows better."""
    (project / "kaput.toml").write_text('kafka = "4.3.1"\nnetwork = "namespaces"\n')
    assert set(cluster_defaults(scenario, read_settings(), given)) == left


def test_the_scenario_that_runs_has_them(project: Path) -> None:
    """And a value that it cannot have is a mistake of the file."""
    (project / "kaput.toml").write_text('kafka = "4.3.1"\n')
    (choice,) = choose(["noop"], [], [], [], settings=read_settings())
    assert choice.scenario.cluster.kafka == "4.3.1"
    (choice,) = choose(["noop"], [], ["cluster.kafka=4.2.0"], [], settings=read_settings())
    assert choice.scenario.cluster.kafka == "4.2.0"
    (project / "kaput.toml").write_text('kafka = "four"\n')
    with pytest.raises(UsageError, match=r"kafka in .*kaput.toml:1"):
        choose(["noop"], [], [], [], settings=read_settings())
