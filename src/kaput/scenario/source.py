"""A YAML document: its plain data, and the line of each value.

Not here: the meaning of the data (model.py), and messages about mistakes (mistakes.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from kaput.errors import UsageError, unreadable

_HALF = re.compile("[\ud800-\udfff]")
_FAST = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_LARGEST = 4 * 1024 * 1024  # bytes of a file: far more than any scenario needs
DataPath = tuple[str | int, ...]


class FileKind(NamedTuple):
    """A kind of file: its name in messages, and the command that prints an example."""

    noun: str
    example: str


SCENARIO = FileKind("scenario", "kaput scenarios show noop")


def dotted(path: DataPath) -> str:
    """`workload.producers.0.acks`; a key that is invisible or would break the line is quoted."""
    return ".".join(
        str(part) if str(part).strip() and str(part).isprintable() else repr(part) for part in path
    )


@dataclass(frozen=True)
class Source:
    """A document. `name`: for messages; `duplicates`: messages about duplicate keys, with their lines."""

    name: str
    root: yaml.MappingNode
    data: dict[Any, Any]
    duplicates: list[tuple[str, int]] = field(default_factory=list)

    def line(self, path: DataPath) -> int:
        """The line, from 1, of the value at `path`, or of the nearest enclosing block that exists."""
        node: yaml.Node = self.root
        line = node.start_mark.line
        for part in path:
            found = _child(node, part)
            if found is None:
                break
            line, node = found
        return line + 1


def read(path: Path, kind: FileKind = SCENARIO) -> str:
    """Reads a file. Raises UsageError with its name."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise UsageError(f"{path}: no {kind.noun}: larger than {_LARGEST:,} bytes")
        return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from None


def parse(name: str, text: str, kind: FileKind = SCENARIO, *, trusted: bool = False) -> Source:
    """Parses a document. Raises UsageError with line and column if it is not a YAML mapping. `trusted`: one
    of kaput's own, which libyaml may parse: six times as fast, but deep nesting would crash it.
    """
    try:
        loader = (_FAST if trusted else Loader)(text)
        node = loader.get_single_node()
        duplicates = _duplicates(node) if node else []
        if node:
            _refuse_half_characters(name, node)
        data = loader.construct_document(node) if node else None
    except yaml.YAMLError as error:
        raise UsageError(syntax(name, text, error)) from None
    except RecursionError:
        raise UsageError(f"{name}: nested too deeply") from None
    if node is None:
        raise UsageError(f"{name}: empty; `{kind.example}` prints a {kind.noun} to start from")
    if not isinstance(node, yaml.MappingNode) or not isinstance(data, dict):
        what = f"a {kind.noun} is a mapping of keys to values"
        raise UsageError(f"{name}:{node.start_mark.line + 1}: {what}; `{kind.example}` prints one")
    return Source(name, node, data, duplicates)


def _refuse_half_characters(name: str, root: yaml.Node) -> None:
    """Halves of characters, which an escape such as \\ud800 gives, can be written to no file."""
    pending, visited = [root], set()
    while pending:
        node = pending.pop()
        if id(node) in visited:  # an alias
            continue
        visited.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            if _HALF.search(node.value):
                raise UsageError(
                    f"{name}:{node.start_mark.line + 1}: {node.value!r} has an unpaired surrogate"
                )
        elif isinstance(node, yaml.MappingNode):
            pending += [part for pair in node.value for part in pair]
        else:
            pending += node.value


class Loader(yaml.SafeLoader):
    """Of what Python cannot make of a text, the error has its place: a character ("\\U00110000"), or a value
    that is none of its type (2001-99-99, !!bool maybe).
    """

    def fetch_more_tokens(self) -> None:
        try:
            super().fetch_more_tokens()
        except (ValueError, OverflowError) as error:
            raise yaml.MarkedYAMLError(problem=str(error), problem_mark=self.get_mark()) from None

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, OverflowError) as error:
            raise yaml.MarkedYAMLError(problem=str(error), problem_mark=node.start_mark) from None
        except (LookupError, AttributeError):
            problem = f"{node.value!r} is no {node.tag.rpartition(':')[2]}"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark) from None


def syntax(name: str, text: str, error: yaml.YAMLError) -> str:
    """What is not YAML in a text, and where."""
    place, words = name, " ".join(str(error).split())
    if isinstance(error, yaml.MarkedYAMLError):
        words = ", ".join(part for part in (error.problem, error.context) if part)
        if mark := error.problem_mark or error.context_mark:
            place = f"{name}:{mark.line + 1}:{mark.column + 1}"
    elif isinstance(error, yaml.reader.ReaderError):
        before = text[: error.position].split("\n")
        place = f"{name}:{len(before)}:{len(before[-1]) + 1}"
        words = f"{error.reason} ({text[error.position]!r})"
    # The commonest mistake, in titles.
    colon = "; put a value that has ': ' in it into quotes" if "mapping values" in words else ""
    return f"{place}: not valid YAML: {words}{colon}"


def _child(node: yaml.Node, part: str | int) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        # The last duplicate wins, as in the data.
        for key, value in reversed(node.value):
            if isinstance(key, yaml.ScalarNode) and key.value == str(part):
                return key.start_mark.line, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        child: yaml.Node = node.value[part]
        return child.start_mark.line, child
    return None


def _duplicates(root: yaml.Node) -> list[tuple[str, int]]:
    """Duplicate keys of mappings; must be called before merge keys (<<) are resolved."""
    found: list[tuple[str, int]] = []
    pending: list[tuple[DataPath, yaml.Node]] = [((), root)]
    visited: set[int] = set()
    while pending:
        path, node = pending.pop()
        if id(node) in visited:  # an alias
            continue
        visited.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            pending += [((*path, i), child) for i, child in enumerate(node.value)]
        elif isinstance(node, yaml.MappingNode):
            first: dict[str, int] = {}
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    continue
                here, line = (*path, key.value), key.start_mark.line + 1
                if key.value in first:
                    found.append(
                        (f"{dotted(here)}: given twice; the first is on line {first[key.value]}", line)
                    )
                first.setdefault(key.value, line)
                pending.append((here, value))
    return found
