"""What MkDocs adds to docs/ when it builds the site (mkdocs.yml, `make site`).

- The navigation: the sections and tables of docs/README.md, so that a page is listed once.
- Pages from the code: every verb, the public names in Python.
- README.md, CONTRIBUTING.md and the other pages next to docs/.
- Pages with the text of files that are no page and that a page links to: examples, clients, scripts. An
  installed kaput has them nowhere else.
- An anchor for each word of the glossary. Lists of commands that are wider than a page, as text that wraps.

A warning fails the build (--strict): a link or an anchor that is not there, a list that MkDocs does not see.
"""

from __future__ import annotations

import inspect
import json
import logging
import posixpath
import re
import shutil
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pydantic import BaseModel

from kaput.core import VERSION

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
REFERENCE = {
    "reference/COMMANDS.md": "Every verb and its options",
    "reference/PYTHON_API.md": "Every public name in Python",
}
README = "project/README.md"
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_ITEM = re.compile(r"(?:[-*]|\d+\.) ")
_LIST_IN_TEXT = re.compile(r"<p>[^<]*(?:<(?!/p>)[^>]*>[^<]*)*\n(?:[-*]|\d+\.) ")
_COMMANDS = re.compile(r"(?:^    \S.*\n)+", re.MULTILINE)  # an indented block
_COMMAND = re.compile(r"    (kaput .*?)(?: +# (.+))?\n")
_COLUMNS = 78  # of a block of code in a window of 1280 pixels
_FOUND_LATER = (
    "decisions/",
    "project/C",
    "ADDING_AN",
    "ADDING_A_SECTION",
    "ARCHITECTURE",
    "TESTED",
    "MUTATIONS",
)
_LANGUAGES = {".py": "python", ".mjs": "javascript", ".yml": "yaml", ".sh": "bash"}  # others: their suffix
_TEXTS = (".go", ".java", ".json", ".mod", ".xml", ".yml")  # of a directory
_ENGLISH_ONLY = ("assets/javascripts/lunr",)  # its other languages
log = logging.getLogger("mkdocs.plugins.kaput")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The navigation, and the version at the foot of each page."""
    sections = _sections((DOCS / "README.md").read_text(encoding="utf-8"))
    sections[-1]["Reference"] += [{title: path} for path, title in REFERENCE.items()]
    config.copyright = f"kaput {VERSION}"
    config.nav = [{"Home": "README.md"}, *sections]
    return config


def _sections(index: str) -> list[dict[str, list[Any]]]:
    """The sections, each with the pages that no later one has: what many readers need is in the last one."""
    sections: list[dict[str, list[Any]]] = []
    taken: set[str] = set()
    for part in reversed(index.split("\n## ")[1:]):
        title, _, body = part.partition("\n")
        pages = [_on_site("README.md", link) for _, _, link in _LINK.findall(body)]
        new = [page for page in dict.fromkeys(pages) if page.endswith(".md") and page not in taken]
        taken.update(new)
        sections.append({title: [{"What kaput is": page} if page == README else page for page in new]})
    return sections[::-1]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The pages that are not in docs/."""
    for path in sorted(ROOT.glob("*.md")):
        text = path.read_text(encoding="utf-8").replace('="docs/', '="../')  # pictures that are HTML
        files.append(File.generated(config, f"project/{path.name}", content=text))
    for page, text in zip(REFERENCE, (_commands(), _python()), strict=True):
        files.append(File.generated(config, page, content=text))
    for linked in sorted(_linked_files()):
        files.append(File.generated(config, _page_of(linked), content=_with_text_of(linked)))
    return files


def _linked_files() -> set[Path]:
    """Files and directories that are no page, which a page links to."""
    found = set()
    for page in (*ROOT.glob("*.md"), *DOCS.rglob("*.md")):
        source = f"project/{page.name}" if page.parent == ROOT else page.relative_to(DOCS).as_posix()
        for _, _, link in _LINK.findall(page.read_text(encoding="utf-8")):
            if _on_site(source, link).startswith("files/"):
                found.add(_target(source, link))
    return found


def _page_of(path: Path) -> str:
    return f"files/{path.relative_to(ROOT).as_posix().lstrip('.')}.md"


def _with_text_of(path: Path) -> str:
    """A page: each file of a directory, or the one file, as code to copy."""
    files = [path]
    if path.is_dir():  # without what a build has left there
        files = [
            each for each in sorted(path.rglob("*.*")) if each.suffix in _TEXTS and "target" not in each.parts
        ]
    parts = [f"# {path.relative_to(ROOT).as_posix()}\n"]
    for file in files:
        parts += [f"## {file.relative_to(path).as_posix()}\n"] if path.is_dir() else []
        if file.suffix == ".ipynb":
            parts += _cells(file)
        else:
            parts.append(_code(file.read_text(encoding="utf-8"), file.suffix))
    return "\n".join(parts)


def _cells(notebook: Path) -> Iterator[str]:
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        yield (
            _code(text, ".py")
            if cell["cell_type"] == "code"
            else f"{text.replace('](../docs/', '](../../')}\n"
        )


def _code(text: str, suffix: str) -> str:
    return f"````{_LANGUAGES.get(suffix, suffix[1:])}\n{text.rstrip()}\n````\n"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links as the site has them, and the glossary's anchors."""
    source = page.file.src_uri
    page.meta["search"] = {
        "boost": 0.3 if source.startswith(_FOUND_LATER) else 1,
        "exclude": source.startswith("files/"),
    }
    if source.startswith(("reference/", "files/")):
        return markdown
    if source == "GLOSSARY.md":
        markdown = _with_anchors(markdown)

    def linked(found: re.Match[str]) -> str:
        image, text, link = found.groups()
        target = _on_site(source, link)
        return f"{image}[{text}]({_relative(source, target)})"

    return _COMMANDS.sub(_wide_commands, _LINK.sub(linked, _lists(markdown)))


def _wide_commands(block: re.Match[str]) -> str:
    """A block of commands with comments, each comment below its command if a line is too long for it."""
    lines = block[0].splitlines(keepends=True)
    found = [_COMMAND.fullmatch(line) for line in lines]
    if len(lines) < 3 or max(map(len, lines)) <= _COLUMNS or not all(found) or block[0].count(" # ") < 2:
        return block[0]
    items = [(each[1], each[2] or "") for each in found if each]
    rows = [f"<dt><code>{escape(command)}</code></dt><dd>{escape(text)}</dd>" for command, text in items]
    return f'<dl class="commands">{"".join(rows)}</dl>\n'


def _lists(markdown: str) -> str:
    """Indents what belongs to an item of a list by four columns and ends it with an empty line."""
    lines: list[str] = []
    width, fenced = 0, False
    for line in markdown.split("\n"):
        item = _ITEM.match(line)
        if line.startswith("```"):
            fenced = not fenced
        if item and not fenced:
            width = len(item[0])
            lines += [""] if lines and lines[-1].startswith("    ") else []
        elif line and not line.startswith(" "):
            width = 0
        inside = width and not item and line[:width].isspace()
        lines.append("    " + line[width:] if inside else line)
    return "\n".join(lines)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Warns of lists that only other Markdown sees; tables scroll by themselves."""
    for found in _LIST_IN_TEXT.finditer(re.sub(r"<pre.*?</pre>", "", html, flags=re.DOTALL)):
        log.warning("%s: a list without an empty line before it: %s", page.file.src_uri, found[0][:100])
    return html


def on_post_build(config: MkDocsConfig) -> None:
    """Deletes what no browser loads of pages that are files."""
    site = Path(config.site_dir)
    for path in (*site.rglob("*.map"), *site.glob("sitemap.*"), site / "404.html"):
        path.unlink()
    for folder in _ENGLISH_ONLY:
        shutil.rmtree(site / folder, ignore_errors=True)


def _on_site(source: str, link: str) -> str:
    """The page or file of the site that a link on a page leads to, with its anchor."""
    if re.match(r"[a-z]+:", link) or link.startswith("#"):
        return link
    _, hash_sign, anchor = link.partition("#")
    path = _target(source, link)
    if not path.exists():
        return link  # of which MkDocs then warns
    if path.parent == ROOT and path.suffix == ".md":
        return f"project/{path.name}{hash_sign}{anchor}"
    if not path.is_relative_to(DOCS) or path.suffix not in (".md", ".svg"):
        return _page_of(path)
    return f"{path.relative_to(DOCS).as_posix()}{hash_sign}{anchor}"


def _target(source: str, link: str) -> Path:
    """The file or directory that a link on a page names; of a directory its README.md, if it has one."""
    home = ROOT if source.startswith("project/") else DOCS / posixpath.dirname(source)
    path = Path(posixpath.normpath((home / link.partition("#")[0]).as_posix()))
    return path / "README.md" if (path / "README.md").exists() else path


def _relative(source: str, target: str) -> str:
    if re.match(r"[a-z]+:", target) or target.startswith("#"):
        return target
    return posixpath.relpath(target, posixpath.dirname(source) or ".")


def _with_anchors(glossary: str) -> str:
    """The glossary with an anchor for each word: GLOSSARY.md#unseen. The first row of a word has it."""
    taken: set[str] = set()

    def row(found: re.Match[str]) -> str:
        names = [term_anchor(word.partition(" [")[0]) for word in found[1].split(", ")]
        anchors = "".join(f'<a id="{name}"></a>' for name in names if name not in taken)
        taken.update(names)
        return f"| {anchors}{found[1]} | "

    head, _, tables = glossary.partition("\n| --- |")
    return head + "\n| --- |" + re.sub(r"^\| (?!word |---)(.+?) \| ", row, tables, flags=re.MULTILINE)


def term_anchor(word: str) -> str:
    """The anchor of a word of the glossary."""
    return re.sub(r"[^\w-]+", "-", word.strip("`").lower()).strip("-")


def _commands() -> str:
    import typer.main
    from typer.testing import CliRunner

    from kaput.cli.main import program

    app = program()
    parts = [
        "# Every verb and its options\n\nWhat `kaput VERB --help` prints. Exit statuses are those of "
        "[a pipeline](../CI.md#exit-status).\n"
    ]
    for path in _verbs(typer.main.get_command(app)):
        shown = CliRunner().invoke(app, [*path.split(), "--help"], terminal_width=90, env={"COLUMNS": "90"})
        parts.append(f"## {f'kaput {path}'.strip()}\n\n<pre><code>{escape(shown.output)}</code></pre>\n")
    return "\n".join(parts)


def _verbs(command: Any, path: str = "") -> Iterator[str]:
    yield path
    for name, below in getattr(command, "commands", {}).items():
        if not below.hidden:
            yield from _verbs(below, f"{path} {name}".strip())


def _python() -> str:
    import kaput

    parts = [
        "# Every public name in Python\n\nWith examples: [kaput from Python](../PYTHON.md), "
        "[in your tests](../IN_YOUR_TESTS.md), [kept messages](../KEEP.md).\n"
    ]
    seen: list[Any] = []
    for name in sorted(kaput.__all__):
        thing = getattr(kaput, name)
        if name.startswith("__") or inspect.ismodule(thing) or thing in seen:
            continue
        seen.append(thing)
        parts.append(_documented(f"kaput.{name}", thing, "##"))
        if inspect.isclass(thing) and not issubclass(thing, BaseException):
            parts += [_documented(f"{name}.{key}", value, "###") for key, value in _members(thing)]
    return "\n".join(parts)


def _members(thing: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that kaput's classes define, in their order."""
    for base in thing.__mro__:
        for name, value in vars(base).items():
            plain = inspect.isfunction(value) or isinstance(value, property)
            if base.__module__.startswith("kaput.") and plain and not name.startswith(("_", "model_")):
                yield name, value


def _documented(title: str, thing: Any, level: str) -> str:
    """A heading, its signature, and its docstring."""
    fields = inspect.isclass(thing) and issubclass(thing, (BaseException, BaseModel))
    shown = f"{title}{'' if fields or isinstance(thing, property) else _signature(thing)}"
    text = f'<pre class="prose">{escape(inspect.getdoc(thing) or "")}</pre>'
    return f"{level} {title}\n\n<pre><code>{escape(shown)}</code></pre>\n\n{text}\n"


def _signature(thing: Any) -> str:
    signature = inspect.signature(thing)
    parameters = [each for name, each in signature.parameters.items() if name != "self"]
    text = str(signature.replace(parameters=parameters)).replace("'", "")
    return re.sub(r"<function .+? at 0x[0-9a-f]+>", "...", text)  # a default with an address in memory
