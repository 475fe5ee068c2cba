"""The examples of docs/EXISTING_CLUSTER.md are what Kubernetes, Compose and kaput read, and fit together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from kaput.scenario.loader import load_file, resolve
from kaput.scenario.model import Scenario
from kaput.scenario.source import parse, read

DOCS = Path(__file__).parents[3] / "docs"
EXAMPLES = DOCS / "existing-cluster"
# Of the Compose specification and of Kubernetes, the keys that the examples may have.
_SERVICE = {"image", "healthcheck", "ports", "environment"}
_API = {
    "ServiceAccount": "v1",
    "ConfigMap": "v1",
    "Role": "rbac.authorization.k8s.io/v1",
    "RoleBinding": "rbac.authorization.k8s.io/v1",
    "Job": "batch/v1",
}


def loaded(name: str, text: str) -> Scenario:
    """A scenario for a cluster that is there."""
    return resolve(parse(name, text), existing=True)


def commands(scenario: Scenario) -> list[str]:
    """Every command line of its faults."""
    lines = (getattr(step, name) for step in scenario.faults for name in ("inject", "heal", "prove"))
    return [line for line in lines if line]


def test_compose_example_is_reachable_from_outside() -> None:
    """Each broker has an id, a port and an address of its own, and all know the same voters."""
    file = yaml.safe_load((EXAMPLES / "compose.yaml").read_text())
    assert {key for key in file if not key.startswith("x-")} == {"name", "services"}
    brokers: dict[str, dict[str, Any]] = file["services"]
    voters = brokers["kafka-1"]["environment"]["KAFKA_CONTROLLER_QUORUM_VOTERS"].split(",")
    for name, service in brokers.items():
        assert set(service) == _SERVICE and all(isinstance(v, str) for v in service["environment"].values())
        told = service["environment"]
        assert name == f"kafka-{told['KAFKA_NODE_ID']}" and f"{told['KAFKA_NODE_ID']}@{name}:9093" in voters
        (port,) = service["ports"]
        outside, inside = port.split(":")
        assert f"CLIENTS://localhost:{outside}," in told["KAFKA_ADVERTISED_LISTENERS"]
        assert f"CLIENTS://:{inside}," in told["KAFKA_LISTENERS"]
        names = [part.split("://")[0] for part in told["KAFKA_LISTENERS"].split(",")]
        assert {
            part.split(":")[0] for part in told["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(",")
        } == set(names)
        assert {told["KAFKA_CONTROLLER_LISTENER_NAMES"], told["KAFKA_INTER_BROKER_LISTENER_NAME"]} < set(
            names
        )
    assert len(voters) == len(brokers) == len({service["ports"][0] for service in brokers.values()})


def test_compose_scenario_targets_services_of_compose_file() -> None:
    """By the project's name and by theirs."""
    file = yaml.safe_load((EXAMPLES / "compose.yaml").read_text())
    scenario = loaded("compose-kill.yaml", read(EXAMPLES / "compose-kill.yaml"))
    assert len(scenario.faults) == 1 and len(commands(scenario)) == 2
    for line in commands(scenario):
        assert f"-p {file['name']} " in line and line.replace("{broker}", "1").split()[-1] in file["services"]


def test_kubernetes_job_role_allows_the_scenario_commands() -> None:
    """The account, its role, the scenario and the job refer to one another."""
    every = list(yaml.safe_load_all((EXAMPLES / "kubernetes.yaml").read_text()))
    found = {each["kind"]: each for each in every}
    assert {kind: each["apiVersion"] for kind, each in found.items()} == _API
    assert {each["metadata"]["namespace"] for each in every} == {"kafka"}
    binding, role = found["RoleBinding"], found["Role"]
    assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == ("Role", role["metadata"]["name"])
    pod = found["Job"]["spec"]["template"]["spec"]
    assert (
        pod["serviceAccountName"]
        == found["ServiceAccount"]["metadata"]["name"]
        == binding["subjects"][0]["name"]
    )
    (container,) = pod["containers"]
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert set(mounted) == set(volumes)
    assert volumes["scenarios"]["configMap"]["name"] == found["ConfigMap"]["metadata"]["name"]
    verb, path, *_ = container["args"]
    folder, _, name = path.rpartition("/")
    assert (verb, folder) == ("run", mounted["scenarios"])
    scenario = loaded(name, found["ConfigMap"]["data"][name])
    (line,) = commands(scenario)
    (rule,) = role["rules"]
    assert (
        " delete pod kafka-{broker} " in line
        and {"delete"} <= set(rule["verbs"])
        and rule["resources"] == ["pods"]
    )


def test_documented_scenarios_load(tmp_path: Path) -> None:
    """Every block of YAML on it; none is for a cluster of kaput's own."""
    blocks = (DOCS / "EXISTING_CLUSTER.md").read_text().split("```yaml\n")[1:]
    assert blocks
    for number, block in enumerate(blocks):
        text = block.split("```")[0]
        scenario = loaded(f"block-{number}", text)
        assert all(step.fault == "command" for step in scenario.faults)
    path = tmp_path / "x.yaml"
    path.write_text((EXAMPLES / "compose-kill.yaml").read_text().split("faults:")[0])
    assert load_file(path).faults == []
