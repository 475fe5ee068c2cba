"""Searches on pages: found by a real search in a world without brokers, read while it is written, changed by
nothing.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes.run_folders import Site, served, tree
from fakes.trials import World
from kaput.errors import UsageError
from kaput.search.store import SearchSettings, SearchStore, create_search, open_search
from kaput.search.summary import Searches
from unit.search.test_searching import SPACE_OF, loses, search

NAME = "found"
SECRET = "the secret of another directory"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of searches: one that has found something, and what is none."""
    path = tmp_path_factory.mktemp("searches")
    folder = create_search(path, SPACE_OF, SearchSettings("mine", 1)).rename(path / NAME)
    with closing(SearchStore(folder)) as store:
        search(store, World(loses))
        for each in store.experiments("draw"):  # that world has no evidence to tell signatures from
            store.save(replace(each, signatures=(f"seen-{each.id // 2}",)))
        (find,) = store.finds("found")
        (folder / "finds" / find.name).mkdir(parents=True)
        for part in ("report.html", "scenario.yaml"):
            (folder / "finds" / find.name / part).write_text(f"<p>{part}</p>")
    (path / "secret.txt").write_text(SECRET)
    (path / "empty").mkdir()
    return path


@pytest.fixture(scope="module")
def site(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A dashboard that shows them."""
    with served(tmp_path_factory.mktemp("runs"), searches=Searches(root)) as found:
        yield found


def _now(site: Site, name: str) -> Any:
    with site.events(name, of="searches") as events:
        return next(events)[2]


def test_a_search_is_shown_with_its_coverage_and_its_finds(site: Site, root: Path) -> None:
    """The same numbers as --show has, the way to them, and what was written down."""
    assert f'href="/searches/{NAME}"' in site.ask("/searches").text
    now = _now(site, NAME)
    space, store = open_search(root / NAME)
    with closing(store):
        draws = store.experiments("draw")
        every = store.experiments()
    assert (now["title"], now["seed"], now["found"]) == ("A space", 1, 1)
    assert now["experiments"] == len(every) and now["drawn"] == len(draws) == len(now["curve"]) - 1
    last = now["curve"][-1]
    assert last == {"draw": len(draws), "choices": now["choices_tried"], "signatures": now["signatures"]}
    assert [point["choices"] for point in now["curve"]] == sorted(p["choices"] for p in now["curve"])
    (find,) = [each for each in now["finds"] if each["state"] == "found"]
    assert find["parts"] == ["report.html", "scenario.yaml"] and any("stop" in need for need in find["needs"])
    assert find["rate"].startswith(f"{find['rate'].split(' ')[0]} of ") and find["after"] >= 1
    assert (
        find["command"] == f"kaput run {root}/{NAME}/finds/{find['name']}/scenario.yaml --seed {_seed(find)}"
    )
    assert now["latest"][0]["id"] == every[-1].id and any(each["new"] for each in now["latest"])
    assert site.ask(f"/searches/{NAME}").status == 200 and space.name == "mine"


def _seed(find: Any) -> str:
    return str(find["command"].rpartition(" ")[2])


def test_report_and_scenario_of_a_find_are_linked(site: Site) -> None:
    """Its report as a page of no site, the rest as text."""
    (find,) = [each for each in _now(site, NAME)["finds"] if each["state"] == "found"]
    report = site.ask(f"/searches/{NAME}/finds/{find['name']}/report.html")
    assert report.text == "<p>report.html</p>"
    assert report.headers["content-security-policy"].startswith("sandbox allow-scripts; default-src 'none'")
    scenario = site.ask(f"/searches/{NAME}/finds/{find['name']}/scenario.yaml")
    assert scenario.headers["content-type"].startswith("text/plain")
    assert site.ask(f"/searches/{NAME}/finds/{find['name']}/bug-report.md").status == 404


@pytest.mark.parametrize(
    "path",
    ["nobody", "nobody/events", "empty", "..", "%2e%2e", "..%2fruns", f"{NAME}/finds/..%2f..%2f/secret.txt",
     f"{NAME}/finds/x/search.db", f"{NAME}/finds/../search.db", f"{NAME}/finds/%2e%2e/search.db"],
)  # fmt: skip
def test_path_that_is_no_search_is_not_found(site: Site, path: str) -> None:
    """Nor any other file of one."""
    answer = site.ask(f"/searches/{path}")
    assert answer.status == 404 and SECRET not in answer.text


def test_viewing_pages_changes_no_file(site: Site, root: Path) -> None:
    """SQLite would add a file or two to a store that it may write to."""
    before = tree(root)
    for path in ("/searches", f"/searches/{NAME}"):
        assert site.ask(path).status == 200
    _now(site, NAME)
    assert tree(root) == before


def test_running_search_is_read_incrementally(tmp_path: Path) -> None:
    """What is written since is there at the next look, and nothing is looked at twice; also after a kill."""
    folder = create_search(tmp_path, SPACE_OF, SearchSettings("mine", 1)).rename(tmp_path / NAME)
    searches = Searches(tmp_path)
    with served(tmp_path, searches=searches) as site, closing(SearchStore(folder)) as store:
        with site.events(NAME, of="searches") as events:
            assert next(events)[2]["experiments"] == 0
            search(store, World(loses))
            assert store.finds("found")
            while next(events)[2]["found"] == 0:
                pass
        assert searches.look(NAME) is searches.look(NAME)
        store.begin("draw", store.finds("found")[0].choices, 5)
        assert searches.look(NAME)["playing"] == 1
        for part in ("search.db", "search.db-wal", "search.db-shm"):  # as a kill leaves them
            assert (folder / part).exists()
        before = tree(folder)
        assert Searches(tmp_path).look(NAME)["playing"] == 1
        assert tree(folder) == before


def test_explained_find_has_no_row(tmp_path: Path) -> None:
    """Its page has no words for it."""
    folder = create_search(tmp_path, SPACE_OF, SearchSettings("mine", 1)).rename(tmp_path / NAME)
    with closing(SearchStore(folder)) as store:
        search(store, World(loses))
        shown = Searches(tmp_path).look(NAME)["finds"]
        seen = store.experiments("draw")[0]
        store.add_find("lost:x", seen, 1.0)
        (added,) = store.finds("candidate")
        store.save_find(added, state="explained")
        assert Searches(tmp_path).look(NAME)["finds"] == shown != []


def test_invalid_or_malicious_store_is_rejected(root: Path, tmp_path: Path) -> None:
    """No store, one of another version, a link, a space that names a file; the list shows the others."""
    for name in ("text", "other", "linked", "naming"):
        folder = create_search(tmp_path, SPACE_OF, SearchSettings("mine", 1)).rename(tmp_path / name)
        assert (folder / "search.db").exists()
    (tmp_path / "text" / "search.db").write_text("no database")
    with closing(sqlite3.connect(tmp_path / "other" / "search.db", isolation_level=None)) as database:
        database.execute("UPDATE search SET value = '99' WHERE key = 'format'")
    (tmp_path / "linked" / "search.db-wal").symlink_to(root / "secret.txt")
    space = (tmp_path / "naming" / "space.yaml").read_text()
    (tmp_path / "naming" / "space.yaml").write_text(
        space.partition("base:")[0] + f"base: {root}/secret.txt\nvary: {{}}\n"
    )
    searches = Searches(tmp_path)
    for name, said in (
        ("text", "not a search store"),
        ("other", "format 99"),
        ("linked", "link"),
        ("naming", "must contain the scenario"),
    ):
        with pytest.raises((UsageError, OSError), match=said):
            searches.look(name)
    with served(tmp_path, searches=searches) as site:
        page = site.ask("/searches").text
    assert page.count("/searches/") == 4 and SECRET not in page


def test_searches_page_without_searches(tmp_path: Path) -> None:
    """Next to a run; and where the folder is not there."""
    with served(tmp_path) as site:
        assert site.ask("/searches").status == 200 and site.ask(f"/searches/{NAME}").status == 404
    with served(tmp_path, searches=Searches(tmp_path / "missing")) as site:
        assert "kaput search" in site.ask("/searches").text
    assert json.dumps(Searches(tmp_path / "missing").names()) == "[]"
