"""Every verb's help, by walking the tree of commands: complete, uncut at 80 columns, in the same words."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from fakes.program import app
from kaput.cli import main
from kaput.cli.verbs import GROUPS, MAIN

FORBIDDEN = re.compile(r"\b(said|told|nobody|whoever|let in|stands|who is|elsewise)\b", re.IGNORECASE)
METAVARS = re.compile(r"[A-Z][A-Z0-9_/:=.,]*|<[a-z0-9|-]+>|KEY=V1,V2,\.\.\.|HOST:PORT,\.\.\.")
# Nothing to print as JSON: they become another program, serve pages, or print another format.
WITHOUT_JSON = {
    "shell", "inside", "dashboard", "metrics", "export", "sequence generate", "scenarios schema",
    "keep export", "alerts rules", "serve",
}  # fmt: skip


def _walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    yield " ".join(path), command
    for name, below in getattr(command, "commands", {}).items():
        yield from _walk(below, (*path, name))


TREE = dict(_walk(typer.main.get_command(app)))
VERBS = {path: command for path, command in TREE.items() if not hasattr(command, "commands")}


def printed(*words: str) -> str:
    """As on a terminal of 80 columns."""
    result = CliRunner().invoke(app, list(words), "kaput", terminal_width=80, env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    return result.output


@cache
def help_of(path: str) -> str:
    """As printed by --help."""
    return printed(*path.split(), "--help")


def options_of(path: str) -> list[Any]:
    """Its options, but for --help and shell completion."""
    return [each for each in TREE[path].params if each.param_type_name == "option"]


def test_verb_with_a_hyphen_is_a_module_with_an_underscore(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("kaput.cli.two_words")
    vars(module)["two_words_command"] = lambda: typer.echo("here")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(main.VERBS, GROUPS[0], "two-words run")
    assert CliRunner().invoke(main.program(["two-words", "run"]), ["two-words"]).stdout == "here\n"


@pytest.mark.parametrize("path", TREE)
def test_help_fits_a_terminal_and_uses_plain_words(path: str) -> None:
    """No line beyond 80 columns, no summary cut, no Python type, no odd word."""
    text = help_of(path)
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert [line for line in text.splitlines() if re.search(r"[a-z]\.\.\.$", line)] == []
    assert not re.search(r"<(list|str|int|float|path|uuid)\b", text, re.IGNORECASE)
    assert FORBIDDEN.findall(text) == []


@pytest.mark.parametrize("path", TREE)
def test_every_command_has_a_matching_example(path: str) -> None:
    """`Example: kaput VERB ...`, on lines of its own."""
    examples = [line.strip() for line in help_of(path).splitlines() if "Example: " in line]
    assert any(line.startswith(f"Example: kaput {path}".strip()) for line in examples)


@pytest.mark.parametrize("path", TREE)
def test_every_option_and_argument_is_explained(path: str) -> None:
    """With a sentence, and with a name for its value that other verbs would use."""
    for each in TREE[path].params:
        assert each.help and each.help.rstrip()[-1] == ".", each.name
        assert not getattr(each, "is_flag", False) or each.metavar is None
    for name in re.findall(r"^  (?:-\S+, )?--[a-z-]+ (\S+)", help_of(path), re.MULTILINE):
        assert METAVARS.fullmatch(name) or name == "/", name


@pytest.mark.parametrize("path", VERBS)
def test_results_are_available_as_json(path: str) -> None:
    """With `--json`; `--format` where there are more formats."""
    names = {name for each in options_of(path) for name in each.opts}
    assert ("--json" in names) is (path not in WITHOUT_JSON)


@pytest.mark.parametrize("path", VERBS)
def test_json_is_also_an_output(path: str) -> None:
    """`--output json` where there is one document."""
    with_output = "--output" in help_of(path)
    assert with_output is (path not in {*WITHOUT_JSON, "watch", "search", "tool"})


def test_each_option_has_one_meaning() -> None:
    """A word is a flag everywhere or takes a value everywhere; what it takes is one kind of thing."""
    kinds: dict[str, set[tuple[bool, bool]]] = {}
    for path in VERBS:
        for each in options_of(path):
            for name in each.opts:
                pair = str(each.metavar).startswith("KEY=")
                kinds.setdefault(name, set()).add((bool(getattr(each, "is_flag", False)), pair))
    # One of several searches or watches is continued, but the only reassignment or matrix of a place.
    assert [name for name, found in kinds.items() if len(found) > 1] == ["--resume"]


@pytest.mark.parametrize(
    ("option", "paths"),
    [
        ("--set", {"run", "regress", "scenarios check"}),
        ("--config", {"run", "up", "serve"}),
        ("--option", {"fault inject"}),
        ("--spark-conf", {"analyze", "watch"}),
        ("--client-setting", {"replay", "keep replay"}),
    ],
)
def test_settings_of_different_things_have_different_options(option: str, paths: set[str]) -> None:
    """Of a scenario, of brokers, of a fault, of Spark, and of librdkafka."""
    assert {path for path in VERBS for each in options_of(path) if option in each.opts} == paths


def test_verbs_on_your_own_cluster_can_sign_in_to_it() -> None:
    """As docs/SECURITY.md promises."""
    names = {path: {name for each in options_of(path) for name in each.opts} for path in VERBS}
    own = {path for path in VERBS if "--bootstrap-servers" in names[path]}
    assert len(own) > 5
    assert {path for path in own if "--command-config" not in names[path]} == set()


def test_all_verbs_are_in_a_group() -> None:
    """The sections of `kaput --help`, in order, with every verb in one of them."""
    verbs = {path for path in TREE if path and " " not in path}
    brief, whole = help_of(""), printed("help", "--all")
    for text in (brief, whole):
        titles = re.findall(r"^(\S.*):$", text, re.MULTILINE)
        assert titles == [*GROUPS, "Options"]
    shown = set(re.findall(r"^  (\w[\w-]*)  ", brief, re.MULTILINE)) - {"also"}
    also = re.findall(r"^  also +(.*(?:\n {6,}.*)*)", brief, re.MULTILINE)
    others = re.findall(r"[\w-]+", re.sub(r"-\n +", "-", "\n".join(also)))
    assert shown == set(MAIN) and sorted(others) == sorted(verbs - shown)
    assert set(re.findall(r"^  (\w[\w-]*)  ", whole, re.MULTILINE)) == verbs


def test_the_first_help_fits_on_a_screen() -> None:
    """Of 42 lines."""
    assert len(help_of("").splitlines()) <= 42


@pytest.mark.parametrize("path", TREE)
def test_help_is_asked_for_in_three_ways(path: str) -> None:
    """-h, --help, `kaput help VERB`, and `kaput GROUP help VERB`."""
    words = path.split()
    assert printed(*words, "-h") == help_of(path) == printed("help", *words)
    assert printed(*words[:-1], "help", *words[-1:]) == help_of(path)


@pytest.mark.parametrize("path", ["run", "up"])
def test_run_and_up_take_the_same_cluster_options(path: str) -> None:
    """What describes a cluster that kaput starts."""
    names = {name for each in options_of(path) for name in each.opts}
    assert names >= {
        "--brokers", "--controllers", "--rack", "--mode", "--kafka", "--network", "--security", "--config",
        "--kafka-home",
    }  # fmt: skip


def test_arguments_have_the_same_names_everywhere() -> None:
    """RUN_DIR for run folders, SCENARIO for scenarios."""
    names = {"run_dir": "RUN_DIR", "scenario": "SCENARIO", "files": "FILE", "command": "COMMAND"}
    arguments = [
        each for command in VERBS.values() for each in command.params if each.param_type_name == "argument"
    ]
    assert all(each.metavar == names.get(each.name, each.metavar) for each in arguments)
    assert {each.metavar for each in arguments} == {
        "SCENARIO", "RUN_DIR", "FAULT", "ID", "N", "COMMAND", "SOURCE", "TARGET", "TOPIC/PARTITION", "TOOL",
        "ARG", "FILE", "NAME", "STORE", "A", "B",
    }  # fmt: skip


def _parsed(verb: str, *words: str) -> dict[str, Any]:
    """The values that a verb is called with."""
    return dict(VERBS[verb].make_context(verb, list(words)).params)


def test_up_also_takes_the_name_of_the_cluster_as_name() -> None:
    """`--name` is an alias there, and nowhere else."""
    assert _parsed("up", "--name", "mine") == _parsed("up", "--cluster", "mine")
    assert [path for path in VERBS for each in options_of(path) if "--name" in each.opts] == ["up"]


def test_arguments_of_another_program_are_not_parsed() -> None:
    """They are not kaput's options, even where they have the same names."""
    assert _parsed("shell", "prog", "--cluster", "x")["command"] == ["prog", "--cluster", "x"]
