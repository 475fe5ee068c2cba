"""The documents of a YAML or JSON file of several, each with the lines of its values."""

from __future__ import annotations

from pathlib import Path

import yaml

from kaput.errors import UsageError
from kaput.scenario.described_cluster import KIND, Document
from kaput.scenario.source import Source, read


def documents_of(path: Path) -> list[Document]:
    """The mappings in a file; a list of kubectl's is taken apart. Raises UsageError with the line."""
    found = []
    try:
        loader = yaml.SafeLoader(read(path, KIND))
        while loader.check_node():
            node = loader.get_node()
            data = loader.construct_document(node)
            if isinstance(node, yaml.MappingNode) and isinstance(data, dict):
                found += _items(Document(Source(str(path), node, data), data))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else path
        words = ", ".join(part for part in (error.problem, error.context) if part)
        raise UsageError(f"{place}: not valid YAML: {words}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
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
