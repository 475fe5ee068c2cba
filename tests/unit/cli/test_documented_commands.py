"""Each `kaput ...` in README, CONTRIBUTING and docs is one that the program of today understands: its verb,
options and their values, and the built-in scenarios, tags, faults and changes that it names.

Commands in code blocks are parsed whole; those in a sentence may leave out what the sentence is not about.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.main
from pydantic import ValidationError

from fakes.program import app
from kaput.scenario.builtin import builtin_names
from kaput.scenario.fault_kinds import KINDS
from kaput.scenario.loader import load_builtin

ROOT = Path(__file__).parents[3]
_WHERE = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md", "docs/finds/*.md")
PAGES = sorted(page for each in _WHERE for page in ROOT.glob(each))
TREE: Any = typer.main.get_command(app)
_COMMAND = re.compile(r"^(?:\$ )?(?:\w+=\S+ )*(?:\.venv/bin/)?kaput( .*)?$")
_PLACEHOLDER = re.compile(r"^\[?(?:--?\w.*=)?[A-Z][A-Z0-9_.:/#=]*(?:\.\.\.|…|\])*$|^\[|\.\.\.|…|[<*$]")
_REST = {"tool", "shell", "inside"}  # what follows is another program's
_WRONG = (typer.BadParameter.__bases__[0], ValidationError)  # of typer's own click
_OF_SCENARIOS = {
    "run",
    "scenarios show",
    "scenarios check",
    "regress",
    "search",
}  # verbs with them as arguments


def _in_blocks(text: str) -> Iterator[str]:
    """The commands on lines of code blocks, each without its comment."""
    joined = text.replace("\\\n", " ")
    fenced = "\n".join(re.findall(r"^ *```\w*\n(.*?)^ *```", joined, flags=re.DOTALL | re.MULTILINE))
    indented = "\n".join(re.findall(r"^ {4,}.*$", joined, flags=re.MULTILINE))
    for line in f"{fenced}\n{indented}".split("\n"):
        for part in re.split(
            r"(?:;|&&|\|\|?)\s+", line.strip().removeprefix("- run: ").removeprefix("run: ")
        ):
            if found := _COMMAND.match(part):
                yield found[1] or ""


def _in_sentences(text: str) -> Iterator[str]:
    outside = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    for code in re.findall(r"`([^`\n]+)`", outside):
        for part in re.split(r"(?:;|&&|\|\|?)\s+", code):
            if found := _COMMAND.match(part):
                yield found[1] or ""


def _words(command: str) -> list[str]:
    lexer = shlex.shlex(command, posix=True, punctuation_chars="<>&")
    lexer.whitespace_split, lexer.commenters = True, "#"
    words = list(lexer)
    cut = next((place for place, word in enumerate(words) if re.fullmatch(r"[<>&]+|2?>.*", word)), len(words))
    return words[:cut]


def _verb(words: Sequence[str]) -> tuple[str, Any, list[str]]:
    """Its name, its command, and what follows. Fails for a verb that does not exist."""
    command = TREE
    name: list[str] = []
    rest = list(words)
    while getattr(command, "commands", None) and rest and not rest[0].startswith("-"):
        if not name and rest[0] == "help":
            return _verb(rest[1:])
        if rest[0] not in command.commands:
            assert name and _PLACEHOLDER.search(rest[0]), f"{' '.join(words)}: no verb {rest[0]}"
            break
        command = command.commands[rest[0]]
        name.append(rest.pop(0))
    return " ".join(name), command, rest


def _check_options(name: str, command: Any, rest: Sequence[str], whole: str) -> None:
    params = command.get_params(typer.Context(command))
    known = {option for each in params for option in (*each.opts, *each.secondary_opts)} | {"-h", "--help"}
    for word in rest:
        if word == "--" or (name in _REST and not word.startswith("-")):
            return
        if word.startswith("-") and not re.fullmatch(r"-\d+.*", word):
            assert word.partition("=")[0] in known, f"kaput{whole}: no option {word}"


def _parsed(command: Any, name: str, rest: Sequence[str], whole: str) -> dict[str, Any]:
    """The values of its parameters, if no placeholder and no file of the reader's is among them."""
    try:
        return dict(command.make_context(name, list(rest)).params)
    except _WRONG as error:
        text = str(error)
        open_to_reader = any(_PLACEHOLDER.search(word) for word in rest) or "does not exist" in text
        assert "Missing parameter" in text or "requires an argument" in text or open_to_reader, (
            f"kaput{whole}: {text}"
        )
        return {}


@cache
def _tags() -> set[str]:
    return {tag for name in builtin_names() for tag in load_builtin(name).tags}


def _check_names(name: str, params: dict[str, Any], whole: str) -> None:
    """Scenarios, tags and faults, and changes of scenarios that are built in."""
    given = [str(each) for each in _several(params.get("scenario") or params.get("scenarios"))]
    given = [each for each in given if not _PLACEHOLDER.search(each) and not re.match(r"\d+\.\d", each)]
    builtin = [each for each in given if not each.endswith((".yaml", ".yml"))]
    unknown = set(builtin) - set(builtin_names())
    assert not unknown or name not in _OF_SCENARIOS, f"kaput{whole}: no scenario {unknown}"
    assert set(_several(params.get("tag"))) <= _tags(), f"kaput{whole}: no such tag"
    fault = params.get("fault")
    if name in ("fault inject", "fault kinds") and fault and not _PLACEHOLDER.search(fault):
        assert fault in KINDS, f"kaput{whole}: no fault {fault}"
    if name == "run" and not params.get("bootstrap_servers"):
        changes = [each for each in _several(params.get("set_")) if "..." not in each]
        changes += [each.partition(",")[0] for each in _several(params.get("vary")) if "..." not in each]
        for each in builtin if changes else ():
            load_builtin(each, changes)


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value] if value else []


def _assert_understood(command: str) -> None:
    name, verb, rest = _verb(_words(command))
    _check_options(name, verb, rest, command)
    if not hasattr(verb, "commands") and name not in _REST:
        _check_names(name, _parsed(verb, name, rest, command), command)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_code_blocks_are_understood(page: Path) -> None:
    for command in _in_blocks(page.read_text(encoding="utf-8")):
        _assert_understood(command)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_sentences_are_understood(page: Path) -> None:
    for command in _in_sentences(page.read_text(encoding="utf-8")):
        _assert_understood(command)


def test_make_has_every_target_that_pages_name() -> None:
    """In code blocks and in sentences."""
    targets = set(
        re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    )
    for page in PAGES:
        named = re.findall(r"(?:`|^ {4,}(?:\$ )?)make ([a-z][a-z-]*)", page.read_text(encoding="utf-8"), re.M)
        assert set(named) <= targets, page


def test_the_check_finds_what_is_wrong() -> None:
    """A verb, an option, a scenario, a tag and a key that are not there."""
    for command in (
        " runs noop",
        " run noop --brokrs 3",
        " run leader-kil",
        " run --tag lagg",
        " run noop --set workload.producer.0.acks=1",
        " fault inject kil --target 'leader-of orders/0'",
    ):
        with pytest.raises(Exception, match=r"no (verb|option|scenario|such tag|fault)|workload"):
            _assert_understood(command)


def test_commands_are_found() -> None:
    text = (ROOT / "docs" / "RECIPES.md").read_text(encoding="utf-8")
    assert len(list(_in_blocks(text))) > 40
    assert len(list(_in_sentences(text))) > 5
