"""Alerts with Prometheus's own programs: promtool and amtool take what is generated, Alertmanager the posts.

They come from Debian's packages (fakes/debian_programs.py); where these cannot be had the tests are skipped,
and say why.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from fakes.alerting import lag_rule, rules_of, sample
from fakes.debian_programs import Missing, command
from fakes.receiver import Receiver, receiving
from kaput.core import SECOND
from kaput.monitor.alerts.channels import Alertmanager
from kaput.monitor.alerts.engine import Engine
from kaput.monitor.alerts.notifiers import Notifiers
from kaput.monitor.alerts.prometheus import alerting_rules, inhibit_rules
from kaput.monitor.alerts.rules import builtin
from waiting import wait_for


def found(name: str, package: str) -> list[str]:
    """What starts a program; or a skipped test."""
    try:
        return command(name, package)
    except Missing as why:
        pytest.skip(str(why))


@pytest.fixture(scope="module")
def promtool() -> list[str]:
    return found("promtool", "prometheus")


def checked(*words: object) -> str:
    """What a checker prints; it must be content."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_takes_every_builtin_rule(promtool: list[str], tmp_path: Path) -> None:
    path = tmp_path / "rules.yml"
    path.write_text(alerting_rules(builtin()), encoding="utf-8")
    assert f"SUCCESS: {len(builtin().alert_rules)} rules found" in checked(*promtool, "check", "rules", path)


def test_amtool_accepts_the_inhibit_rules(tmp_path: Path) -> None:
    amtool = found("amtool", "prometheus-alertmanager")
    path = tmp_path / "alertmanager.yml"
    route = yaml.safe_dump({"route": {"receiver": "all"}, "receivers": [{"name": "all"}]})
    path.write_text(inhibit_rules(builtin()) + route, encoding="utf-8")
    assert "inhibit rules" in checked(*amtool, "check-config", path)


# Each second: messages a second, and what becomes of the alert.
SERIES = {
    "healthy": ("0+1000x240", {"200s": False}),
    "too slow, after 30 s": ("0+700x240", {"29s": False, "40s": True}),
    "between 800 and 900: no alert of its own": ("0+850x240", {"200s": False}),
    "once it fires, 850 is not enough": ("0+700x60 42000+850x180", {"50s": True, "230s": True}),
    "and 950 is": ("0+700x60 42000+950x180", {"50s": True, "230s": False}),
}


@pytest.mark.parametrize("name", SERIES)
def test_prometheus_evaluates_the_send_rate_as_the_engine_does(
    promtool: list[str], tmp_path: Path, name: str
) -> None:
    """promtool's own test of rules: pending, firing, hysteresis."""
    values, fires_at = SERIES[name]
    rules = rules_of(
        {
            **{"name": "low-send-rate", "signal": "kaput_messages_acked_total", "rate": "10s"},
            **{"combine": "sum", "below": 800, "clear": 900, "for": "30s", "summary": "x"},
        }
    )
    (tmp_path / "rules.yml").write_text(alerting_rules(rules), encoding="utf-8")
    alert = {"severity": "page"}
    annotations = {"summary": "x", "description": "Because."}
    series = 'kaput_messages_acked_total{topic="t", partition="0"}'
    test = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1s",
        "tests": [
            {
                "interval": "1s",
                "input_series": [{"series": series, "values": values}],
                "alert_rule_test": [
                    {
                        "eval_time": at,
                        "alertname": "LowSendRate",
                        "exp_alerts": [{"exp_labels": alert, "exp_annotations": annotations}] * fires,
                    }
                    for at, fires in fires_at.items()
                ],
            }
        ],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump(test), encoding="utf-8")
    checked(*promtool, "test", "rules", tmp_path / "test.yml")
    assert {at: fires for at, fires in fires_at.items() if fires != _fires(rules, values, at)} == {}


def _fires(rules: Any, values: str, at: str) -> bool:
    engine = Engine(rules)
    for second, total in enumerate(_expanded(values)):
        if second > int(at.removesuffix("s")):
            break
        engine.step(
            [sample(total, second, "kaput_messages_acked_total", topic="t", partition="0")], second * SECOND
        )
    return any(alert.state == "firing" for alert in engine.active)


def _expanded(values: str) -> list[int]:
    """promtool's notation: `0+700x60`, the first and 60 more."""
    parts = [re.fullmatch(r"(\d+)\+(\d+)x(\d+)", part) for part in values.split()]
    return [int(p[1]) + int(p[2]) * n for p in parts if p is not None for n in range(int(p[3]) + 1)]


class AlertmanagerServer:
    """Alertmanager itself, which notifies a receiver."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process, self.url = process, url

    def alerts(self) -> list[dict[str, Any]]:
        with urllib.request.urlopen(f"{self.url}/api/v2/alerts", timeout=30) as answer:
            return json.load(answer)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as started:
        yield started


@pytest.fixture
def alertmanager(tmp_path: Path, receiver: Receiver) -> Iterator[AlertmanagerServer]:
    """Debian's, on a free port."""
    path = tmp_path / "alertmanager.yml"
    config = {
        "route": {"receiver": "all", "group_wait": "0s", "group_interval": "1s", "group_by": ["alertname"]},
        "receivers": [
            {"name": "all", "webhook_configs": [{"url": receiver.url, "send_resolved": True}]},
        ],
    }
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    started = [
        *(*found("prometheus-alertmanager", "prometheus-alertmanager"), f"--config.file={path}"),
        *(f"--storage.path={tmp_path / 'data'}", "--web.listen-address=127.0.0.1:0"),
        "--cluster.listen-address=",
    ]
    with subprocess.Popen(started, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield AlertmanagerServer(process, _address(process))
        finally:
            process.kill()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if match := re.search(r"Listening.* address=(\S+:\d+)", line):
            return f"http://{match[1]}"
    raise AssertionError("".join(lines))


def test_alertmanager_forwards_firing_and_resolved_alerts(
    alertmanager: AlertmanagerServer, receiver: Receiver
) -> None:
    """A real alert: posted, kept alive by posting it again, sent on, resolved, sent on."""
    complaints: list[str] = []
    notifiers = Notifiers([Alertmanager(alertmanager.url, {"cluster": "c"}, repeat_s=0.5)], complaints.append)
    engine = Engine(rules_of(lag_rule(summary="{mirror} is {value:duration} behind")))
    began_s = 1_700_000_000  # long ago: that Alertmanager takes it for news is up to its end
    notifiers.notify(engine.step([sample(99, began_s, mirror="a->b")], began_s * SECOND))
    (post,) = receiver.wait_for_posts(1)[:1]
    assert post.document["status"] == "firing"
    (alert,) = post.document["alerts"]
    assert alert["labels"] == {"alertname": "Lag", "severity": "page", "mirror": "a->b", "cluster": "c"}
    assert alert["annotations"] == {"summary": "a->b is 99 s behind", "description": "Because."}
    (first,) = alertmanager.alerts()
    wait_for(lambda: alertmanager.alerts()[0]["updatedAt"] > first["updatedAt"], "posting it again")
    assert alertmanager.alerts()[0]["status"]["state"] == "active"
    notifiers.notify(engine.step([sample(1, began_s + 60, mirror="a->b")], (began_s + 60) * SECOND))
    wait_for(lambda: receiver.posts[-1].document["status"] == "resolved", "the end of the alert")
    assert alertmanager.alerts() == []
    assert notifiers.close() == 0
    assert complaints == []


def test_alert_resolves_by_itself_when_kaput_stops_posting(
    alertmanager: AlertmanagerServer, receiver: Receiver
) -> None:
    """After a few repetitions that did not come."""
    channel = Alertmanager(alertmanager.url, repeat_s=0.5)
    engine = Engine(rules_of(lag_rule()))
    channel.send(engine.step([sample(99, 1_700_000_000, mirror="m")], 1_700_000_000 * SECOND), 30)
    wait_for(lambda: receiver.posts and receiver.posts[-1].document["status"] == "resolved", "its end")
    assert receiver.posts[0].document["status"] == "firing"
    assert [alert["labels"]["mirror"] for alert in receiver.posts[-1].document["alerts"]] == ["m"]


class Exporter:
    """Serves one gauge to Prometheus."""

    def __init__(self) -> None:
        self.value: float | None = 1.0
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                value = exporter.value
                line = "" if value is None else f'kaput_mirror_lag_seconds{{mirror="a->b"}} {value}\n'
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(line.encode())

            def log_message(self, format: str, *args: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    started = Exporter()
    yield started
    started.server.shutdown()
    started.server.server_close()


def test_prometheus_itself_evaluates_the_generated_rules(
    tmp_path: Path, exporter: Exporter, alertmanager: AlertmanagerServer, receiver: Receiver
) -> None:
    """A real scrape, a real alert, with hysteresis, on to Alertmanager and its receiver."""
    rules = rules_of(lag_rule(clear=5, for_="2s", summary="{mirror} is {value} behind"))
    (tmp_path / "rules.yml").write_text(alerting_rules(rules), encoding="utf-8")
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yml"],
        "scrape_configs": [{"job_name": "kaput", "static_configs": [{"targets": [exporter.address]}]}],
        "alerting": {
            "alertmanagers": [
                {"static_configs": [{"targets": [alertmanager.url.removeprefix("http://")]}]},
            ]
        },
    }
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    command = [
        *(*found("prometheus", "prometheus"), f"--config.file={tmp_path / 'prometheus.yml'}"),
        *(f"--storage.tsdb.path={tmp_path / 'tsdb'}", "--web.listen-address=127.0.0.1:0"),
        "--rules.alert.resend-delay=1s",
    ]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            exporter.value = 99.0
            post = receiver.wait_for_posts(1)[0].document
            assert post["status"] == "firing"
            assert post["alerts"][0]["annotations"]["summary"] == "a->b is 99 behind"
            exporter.value = 7.0
            wait_for(lambda: _value_of(alertmanager) == "a->b is 7 behind", "7 between clear and threshold")
            exporter.value = 1.0
            wait_for(lambda: receiver.posts[-1].document["status"] == "resolved", "the end of the alert")
        finally:
            process.kill()


def _value_of(alertmanager: AlertmanagerServer) -> str:
    alerts = alertmanager.alerts()
    return alerts[0]["annotations"]["summary"] if alerts else "none"
