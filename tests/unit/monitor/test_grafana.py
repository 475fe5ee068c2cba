"""The dashboard for Grafana has every signal once, and nothing lies upon anything else; signals have names
and labels by Prometheus's conventions.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from kaput.monitor.grafana import dashboard, dashboard_text
from kaput.monitor.signals import SIGNALS, Signal


def panels(kind: str) -> list[dict[str, Any]]:
    return [panel for panel in dashboard()["panels"] if panel["type"] == kind]


def test_dashboard_is_importable_json() -> None:
    found = json.loads(dashboard_text())
    assert found["title"] and found["schemaVersion"] >= 36 and "id" not in found
    (variable,) = found["templating"]["list"]
    assert (variable["name"], variable["type"], variable["query"]) == (
        "datasource",
        "datasource",
        "prometheus",
    )


def test_every_signal_has_a_panel() -> None:
    named = [re.findall(r"kaput_\w+", panel["targets"][0]["expr"])[0] for panel in panels("timeseries")]
    assert sorted(name.removesuffix("_bucket") for name in named) == sorted(SIGNALS)
    assert all(panel["description"] and panel["title"] for panel in panels("timeseries"))


def test_ids_are_unique_and_panels_do_not_overlap() -> None:
    every = dashboard()["panels"]
    assert len({panel["id"] for panel in every}) == len(every)
    for one, other in combinations([panel["gridPos"] for panel in every], 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)
        assert one["x"] + one["w"] <= 24


def test_counters_use_rate_and_histograms_use_quantiles() -> None:
    expressions = {target["expr"] for panel in panels("timeseries") for target in panel["targets"]}
    assert "rate(kaput_messages_acked_total[$__rate_interval])" in expressions
    assert (
        "histogram_quantile(0.99, sum by (le, broker) "
        "(rate(kaput_produce_latency_seconds_bucket[$__rate_interval])))" in expressions
    )
    assert "kaput_offline_partitions" in expressions


def test_every_panel_uses_the_datasource_variable() -> None:
    for panel in panels("timeseries"):
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}


def test_row_titles_are_unique() -> None:
    titles = [row["title"] for row in panels("row")]
    assert len(titles) == len(set(titles)) >= 5


@pytest.mark.parametrize("signal", SIGNALS.values(), ids=lambda signal: signal.name)
def test_signal_names_and_units_follow_prometheus_conventions(signal: Signal) -> None:
    assert re.fullmatch(r"kaput(_[a-z]+)+", signal.name)
    assert signal.name.endswith("_total") == (signal.kind == "counter")
    if signal.kind == "histogram":
        assert signal.name.endswith("_seconds")
    assert signal.help.endswith(".")
    assert not {"le", "quantile", "job", "instance"} & set(signal.labels), "these are Prometheus's own"


SDK = "github.com/grafana/grafana-foundation-sdk/go"
STRICT = f"""package main

import (
	"fmt"
	"io"
	"os"

	"{SDK}/cog/plugins"
	"{SDK}/dashboard"
)

func main() {{
	plugins.RegisterDefaultPlugins()
	text, _ := io.ReadAll(os.Stdin)
	var found dashboard.Dashboard
	if err := found.UnmarshalJSONStrict(text); err != nil && err.Error() != "" {{
		fmt.Println(err)
		os.Exit(1)
	}}
	fmt.Println(len(found.Panels))
}}
"""


@pytest.mark.long  # it compiles the types of every panel
@pytest.mark.skipif(shutil.which("go") is None, reason="no Go here, in which Grafana's types are written")
def test_grafanas_own_types_know_every_field(tmp_path: Path) -> None:
    """Its Foundation SDK, strictly: no unknown field, none missing; a misspelt one is found."""
    (tmp_path / "main.go").write_text(STRICT, encoding="utf-8")
    for words in (["mod", "init", "dashboards"], ["get", f"{SDK}@v0.0.22"], ["build", "-o", "strict", "."]):
        try:
            subprocess.run(["go", *words], cwd=tmp_path, check=True, capture_output=True, timeout=900)
        except subprocess.CalledProcessError as error:
            if words[0] == "get":
                pytest.skip(f"no way to Go's modules: {error.stderr.decode()[-300:]}")
            raise

    def read(text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [tmp_path / "strict"], input=text, capture_output=True, text=True, check=False, timeout=60
        )

    done = read(dashboard_text())
    assert (done.returncode, done.stdout) == (0, f"{len(dashboard()['panels'])}\n")
    assert "unexpected field 'gridPoss'" in read(dashboard_text().replace('"gridPos"', '"gridPoss"')).stdout
