"""The documents of a YAML or JSON file of several, each with the lines of its values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kaput.errors import UsageError
from kaput.scenario.cluster_files.described_cluster import KIND
from kaput.scenario.source import DataPath, Loader, Source, read, syntax


@dataclass(frozen=True)
class Document:
    """A YAML document, or one resource `at` a place of it."""

    source: Source
    data: dict[str, Any]
    at: DataPath = ()

    def place(self, *path: str | int) -> str:
        """FILE:LINE of a value."""
        return f"{self.source.name}:{self.source.line((*self.at, *path))}"

    def mapping(self, *path: str) -> dict[str, Any]:
        """A block of it; empty if there is none. Raises UsageError if it is something else."""
        block = self.data
        for at, part in enumerate(path, 1):
            found = block.get(part)
            if found is None:
                return {}
            if not isinstance(found, dict):
                raise UsageError(f"{self.place(*path[:at])}: {'.'.join(path[:at])} is not a mapping")
            block = found
        return block


_TEMPLATE = "if it is a template (of Helm, Ansible or others), fill it in first, as `helm template` does"


class _Loader(Loader):
    """Refuses keys that are given twice, as Compose and kubectl do."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._flat: set[int] = set()  # mappings whose merge keys (<<) are resolved

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Resolves merge keys; what they bring may be given once more."""
        names: set[str] = set()
        for key, _ in node.value if id(node) not in self._flat else ():
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in names:
                    raise yaml.MarkedYAMLError(None, None, f"{key.value} is given twice", key.start_mark)
                names.add(key.value)
        self._flat.add(id(node))
        super().flatten_mapping(node)


def documents_of(path: Path) -> list[Document]:
    """The mappings in a file; a list of kubectl's is taken apart. Raises UsageError with the line."""
    found = []
    text = read(path, KIND)
    if path.suffix.lower() == ".json":
        text = text.replace("\t", " ")  # which YAML has no tabs for
    try:
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            data = loader.construct_document(node)
            if isinstance(node, yaml.MappingNode) and isinstance(data, dict):
                found += _items(Document(Source(str(path), node, data), data))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        template = mark and "{{" in "".join(text.splitlines()[max(mark.line - 1, 0) : mark.line + 1])
        words = syntax(str(path), text, error)
        raise UsageError(f"{words}; {_TEMPLATE}" if template else words) from None
    except RecursionError:
        raise UsageError(f"{path}: nested too deeply") from None
    return found


def _items(document: Document) -> list[Document]:
    items = document.data.get("items")
    if document.data.get("kind") != "List" or not isinstance(items, list):
        return [document]
    return [
        Document(document.source, item, ("items", number))
        for number, item in enumerate(items)
        if isinstance(item, dict)
    ]
