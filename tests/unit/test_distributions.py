"""kaput and kaput-lab: no file in both, nothing missing, and kaput-lab does with its own dependencies."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from kaput.errors import UsageError, needs_package, package_with

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from distributions import ALL, LAB, PACKAGE, files_of, lay_out, metadata, pyproject  # noqa: E402

EXTRAS = {"pymongo", "elasticsearch", "opensearchpy", "opentelemetry", "pytest"}


@cache
def modules_of(name: str) -> dict[str, Path]:
    """Its modules by their names."""
    paths = [path for path in files_of(name) if path.suffix == ".py"]
    return {
        ".".join(["kaput", *path.with_suffix("").parts]).removesuffix(".__init__"): path for path in paths
    }


def imported_at_once(path: Path) -> set[str]:
    """What a module imports when it is imported: not within functions or for type checking."""
    found: set[str] = set()

    def walk(node: ast.AST) -> None:
        for each in ast.iter_child_nodes(node):
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                continue
            if isinstance(each, ast.If) and "TYPE_CHECKING" in ast.unparse(each.test):
                continue
            if isinstance(each, ast.Import):
                found.update(alias.name for alias in each.names)
            elif isinstance(each, ast.ImportFrom) and each.module:
                found.update(f"{each.module}.{alias.name}" for alias in each.names)
            walk(each)

    walk(ast.parse((PACKAGE / path).read_text(encoding="utf-8")))
    return found


def test_each_file_is_in_exactly_one() -> None:
    """And every rule is about files that exist."""
    lab, rest = set(files_of(LAB)), set(files_of(ALL))
    assert lab & rest == set()
    whole = {path.relative_to(PACKAGE) for path in PACKAGE.rglob("*") if path.is_file()}
    assert {path for path in whole if "__pycache__" not in path.parts} == lab | rest
    rules = pyproject()["tool"]["kaput-distributions"]
    assert [
        each for each in rules["only-in-kaput"] + rules["also-in-lab"] if not (PACKAGE / each).exists()
    ] == []
    for needed in ("__init__.py", "__main__.py", "py.typed", "pytest_plugin.py", "clients/keep/producer.py"):
        assert Path(needed) in lab
    assert {Path("analysis/pipeline.py"), Path("report/render/templates/report.css")} <= rest


def test_a_package_of_kaput_lab_has_its_init_there() -> None:
    """Without it, a directory of both would be a namespace package, or none."""
    lab = set(files_of(LAB))
    directories = {path.parent for path in lab if path.suffix == ".py"}
    assert [each for each in directories if each / "__init__.py" not in lab] == []


def test_kaput_lab_imports_nothing_that_it_lacks() -> None:
    """Its modules, at once: only each other, its dependencies, and pytest in the plugin."""
    lab, others = modules_of(LAB), set(modules_of(ALL))
    named = {
        re.split(r"[<>=!~\[ ]", each)[0].lower().replace("_", "-") for each in metadata(LAB)["dependencies"]
    }
    installed = packages_distributions()
    wrong = []
    for module, path in lab.items():
        for name in imported_at_once(path):
            top = name.partition(".")[0]
            if top == "kaput":
                parts = name.split(".")
                missing = {".".join(parts[:n]) for n in range(2, len(parts) + 1)} & others
                wrong += [f"{module}: {each}" for each in missing]
            elif top not in sys.stdlib_module_names and top not in EXTRAS:
                of = {each.lower().replace("_", "-") for each in installed.get(top, [])}
                # pydantic_core comes with pydantic.
                if not of & named and top not in ("pydantic_core", "__future__"):
                    wrong.append(f"{module}: {name}")
    assert wrong == []


def test_kaput_depends_on_the_same_version_of_kaput_lab() -> None:
    """Together they have the dependencies, scripts and plugins of the whole, each once."""
    lab, rest, whole = metadata(LAB), metadata(ALL), pyproject()["project"]
    assert f"kaput-lab=={whole['version']}" in rest["dependencies"]
    together = [
        each for each in lab["dependencies"] + rest["dependencies"] if not each.startswith("kaput-lab")
    ]
    assert sorted(together) == sorted(whole["dependencies"])
    assert lab["scripts"] == whole["scripts"] and lab["entry-points"] == whole["entry-points"]
    assert "scripts" not in rest and "entry-points" not in rest
    assert lab["optional-dependencies"]["stores"] == ["kaput-lab[mongodb,elasticsearch,opensearch]"]
    upper = [each for each in whole["dependencies"] if "<" in each or "==" in each]
    assert upper == [], "an upper bound breaks the environment of a user who needs a newer one"


def test_versions_agree() -> None:
    """Of the package and of pyproject.toml."""
    import kaput

    assert kaput.__version__ == pyproject()["project"]["version"]


def test_what_is_not_installed_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all of kaput there, a missing module stays the error that it is."""
    error = ModuleNotFoundError("No module named 'kaput.analysis'")
    assert needs_package("kaput analyze", error) is error
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    sentence = needs_package("kaput analyze", error)
    assert isinstance(sentence, UsageError)
    assert str(sentence) == "kaput analyze needs the package kaput: pip install kaput"
    assert package_with("mongodb") == "kaput-lab[mongodb]", "all of kaput would be a gigabyte"


def test_the_man_page_is_well_formed(tmp_path: Path) -> None:
    """In the eyes of groff, and with every verb."""
    if shutil.which("groff") is None:
        pytest.skip("no groff")
    page = lay_out(LAB, tmp_path) / "kaput.1"
    words = ["groff", "-man", "-Tutf8", "-ww", str(page)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    text = re.sub(".\x08", "", done.stdout)  # printed twice is bold
    assert done.stderr == "" and "kaput fault inject FAULT" in text


def test_the_man_page_is_in_the_distribution_with_the_command(tmp_path: Path) -> None:
    """In kaput-lab's wheel, as share/man/man1/kaput.1."""
    assert (lay_out(LAB, tmp_path) / "kaput.1").read_text().startswith(".TH KAPUT 1")
    assert "share/man/man1/kaput.1" in (tmp_path / LAB / "pyproject.toml").read_text()
    assert "share/man" not in (lay_out(ALL, tmp_path) / "pyproject.toml").read_text()


def test_the_image_gets_every_file_that_it_copies() -> None:
    """.dockerignore lets them through, and what links in src/ lead to is copied, too."""
    lines = (ROOT / "Containerfile").read_text(encoding="utf-8").splitlines()
    copies = [line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from" not in line]
    copied = {name for names in copies for name in names}
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied == sent
    assert [name for name in copied if not (ROOT / name).exists()] == []
    links = [path.resolve().relative_to(ROOT) for path in PACKAGE.rglob("*") if path.is_symlink()]
    assert links and {str(path) for path in links} <= copied
