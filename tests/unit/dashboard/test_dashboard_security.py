"""Nothing outside the folder of runs, no other site, no change: asked of the real server, byte for byte."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes import sample_run
from fakes.in_process import InProcess
from fakes.run_folders import Site, judged, made, served, tree
from kaput.analysis.pipeline import analyse
from kaput.evidence.reading import check

SECRET = "the secret of another directory"
EVIL = "<script>alert(1)</script>\"'&"


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory next to the folder of runs, with a run folder that is nobody's business."""
    path = tmp_path_factory.mktemp("outside")
    folder = judged(path, "private", scenario="private")
    (path / "secret.txt").write_text(SECRET)
    (folder.path / "report.html").write_text(SECRET)
    return path


@pytest.fixture(scope="module")
def site(outside: Path) -> Iterator[Site]:
    """Runs, some of them made by somebody with bad intentions."""
    runs = outside / "runs"
    (judged(runs, "good").path / "report.html").write_text("<p>the report</p>")
    (runs / "linked").symlink_to(outside / "private")
    leaking = judged(runs, "leaking").path
    (leaking / "report.html").symlink_to(outside / "secret.txt")
    os.utime(leaking / "findings.json", (1, 1))
    (judged(runs, "sideways").path / "analysis").symlink_to(outside)
    whole = sample_run.write(runs / "whole")
    spark: Any = InProcess()
    whole.findings_path.write_text(analyse(check(whole), spark).to_json())
    shutil.copytree(whole.path, runs / "again")
    piped = made(runs, "piped").path
    os.mkfifo(piped / "findings.json")
    judged(runs, EVIL.replace("/", "|"), scenario=EVIL)
    with served(runs) as found:
        yield found


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt",
        "/runs/../secret.txt",
        "/runs/..",
        "/runs/%2e%2e",
        "/runs/%2e%2e%2fsecret.txt",
        "/runs/..%2fprivate",
        "/runs/..%2fprivate/live",
        "/runs/%2e%2e/replay",
        "/runs/%2e%2e/events",
        "/runs/good%2f..%2f..%2fprivate",
        "/runs/good%2freport.html",
        "/runs/good/../../secret.txt",
        "/runs/..%5cprivate",
        "/runs/%252e%252e%252fprivate",
        "/runs/%2fetc%2fpasswd",
        "/runs//etc/passwd",
        "/runs/good%00",
        "/runs/%00",
        "/runs/.",
        "/runs/%c0%ae%c0%ae",
        "/runs/linked",
        "/runs/linked/live",
        "/runs/linked/events",
        "/runs/linked/timeline.json",
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e%2f%2e%2e%2fcli%2fmain.py",
        "/static//etc/passwd",
        "/docs",
        "/openapi.json",
        "//etc/passwd",
        "/etc/passwd",
    ],
)
def test_path_traversal_is_not_found(site: Site, path: str) -> None:
    """Plain, encoded once or twice, absolute, through a link."""
    answer = site.ask(path)
    assert answer.status == 404
    assert SECRET not in answer.text and "private" not in answer.text and "root:" not in answer.text


def test_a_link_inside_of_a_run_folder_is_not_followed(site: Site) -> None:
    """Neither for the report nor for what it is made of; and a pipe is not waited for."""
    for path in ("/runs/leaking", "/runs/sideways", "/runs/sideways/timeline.json", "/runs/piped"):
        answer = site.ask(path)
        assert SECRET not in answer.text, path
    assert site.ask("/runs/sideways").status >= 400
    assert site.ask("/runs/piped").status < 400  # it was never judged
    assert "linked" not in site.ask("/").text


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1:1",
        "127.0.0.1",
        "localhost.evil:{port}",
        "[::1]:{port}",
        "0.0.0.0:{port}",
        "127.0.0.1:{port}@evil",
        "user@127.0.0.1:{port}",
        " ",
        "127.0.0.1:{port}.evil",
    ],
)
def test_other_hosts_are_refused(site: Site, host: str) -> None:
    """A name that somebody has pointed to this machine is not this machine's."""
    answer = site.ask("/", host=host.format(port=site.port))
    assert answer.status in (400, 421)
    assert "good" not in answer.text


def test_localhost_and_loopback_address_are_accepted(site: Site) -> None:
    """localhost in any case, and its number."""
    for host in ("localhost", "LocalHost", "127.0.0.1"):
        assert site.ask("/", host=f"{host}:{site.port}").status == 200


def test_cross_site_requests_are_rejected_except_navigation(site: Site) -> None:
    """Whatever they load or follow; who clicks on a link to the dashboard may."""
    elsewhere = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert site.ask("/runs/good/events", headers=elsewhere).status == 421
    assert site.ask("/", headers={**elsewhere, "Sec-Fetch-Mode": "navigate"}).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_modifying_methods_are_rejected(site: Site, method: str) -> None:
    """There is nothing to be asked for but reading."""
    assert site.ask("/", method=method).status == 405


def test_viewing_pages_changes_no_file(site: Site) -> None:
    """Not a byte, nor a time, after every page has been looked at."""
    before = tree(site.dashboard.runs.root / "good")
    for path in ("/", "/runs/good", "/runs/good/live", "/runs/good/replay", "/runs/good/timeline.json"):
        site.ask(path)
    with site.events("good") as events:
        next(events)
    assert tree(site.dashboard.runs.root / "good") == before


def test_every_answer_has_a_strict_policy(site: Site) -> None:
    """Nothing from elsewhere; a report, whose script is its own, belongs to no site."""
    for path in ("/", "/nothing", "/runs/good/live", "/static/dashboard.css", "/runs/good/timeline.json"):
        headers = site.ask(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"
    report = site.ask("/runs/good")
    assert report.text == "<p>the report</p>"
    assert report.headers["content-security-policy"].startswith("sandbox allow-scripts; default-src 'none'")


def test_run_and_scenario_names_are_escaped(site: Site) -> None:
    """Names of scenarios and of folders are text, also in addresses."""
    page = site.ask("/").text
    assert "alert(1)" in page and "<script>alert" not in page
    assert "%3Cscript%3E" in page
    assert "<script>alert" not in site.ask("/?words=%3Cscript%3Ealert(1)").text
    assert "<script>alert" not in site.ask("/runs/%3Cscript%3Ealert(1)").text


def test_list_live_and_replay_pages_have_no_external_urls(site: Site) -> None:
    """Every address of a page is one of the dashboard itself."""
    for path in ("/", "/runs/good/live", "/runs/good/replay"):
        answer = site.ask(path)
        assert answer.status == 200
        page = answer.text
        assert "//" not in page.replace("</", "").replace("/>", "").replace(str(site.dashboard.runs.root), "")


def test_invalid_request_gets_an_error_and_status(site: Site) -> None:
    """And a status that says whose mistake it is."""
    assert (answer := site.ask("/compare?run=good")).status == 400 and "select two runs" in answer.text
    assert site.ask("/compare?run=good&run=nobody").status == 404
    assert (answer := site.ask("/nothing")).status == 404 and "no such page" in answer.text
    assert site.ask("/compare?" + "&".join(f"run={n}" for n in "abcdefghi")).status == 400
    assert site.ask("/compare?" + "&".join(f"run={n}" for n in range(100))).status == 400
