"""`security: scram-tls`: all connections use TLS, all clients sign in, and ACLs decide what they may do.
Certificates, users and ACLs are made for one cluster, and deleted with it.

Nodes authenticate with certificates (a controller cannot look up a password before there is a metadata log),
clients with SCRAM (docs/SECURITY.md, decision 33). Each password and key has its own file in a folder that
only its owner can read; the nodes' settings name these files and contain no secret.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from kaput.cluster.access import OPEN, Access, write_secret
from kaput.cluster.certificates import Authority
from kaput.cluster.credentials import MECHANISM, User, all_rights
from kaput.cluster.distribution import Distribution
from kaput.cluster.properties import NodeLayout
from kaput.errors import UsageError
from kaput.scenario.model import Cluster
from kaput.scenario.vocabulary import CLIENT_USER, USERS

_FOLDER = "secrets"
CLIENT_PROPERTIES = "client.properties"
_NODE = "node"  # the name in all nodes' certificates
_CLIENTS, _INTERNAL, _CONTROLLER = "CLIENTS", "INTERNAL", "CONTROLLER"
_OLDEST_KAFKA = (3, 5)  # with users in the metadata log
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


class Unsecured:
    """A cluster without security: all clients may do everything."""

    records: Sequence[bytes] = ()
    """Users and ACLs, for the first snapshot of the metadata log."""
    controller_access = OPEN
    """kaput's access to the voters of the metadata quorum."""

    def access(self, user: str = CLIENT_USER) -> Access:
        """A user's access."""
        return OPEN

    def node_settings(self, layout: NodeLayout) -> Mapping[str, str]:
        """A node's security settings: brokers permit everything, and record who sends which requests."""
        if layout.role == "controller":
            return {}
        return {"authorizer.class.name": "RequestVersions", "kaput.requests": str(layout.requests)}


class Security(Unsecured):
    """The security of one cluster. Creates `folder`, which the cluster's owner removes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._authority = Authority()
        folder.mkdir(mode=0o700, parents=True)
        self._authority_path = write_secret(folder / "ca.pem", self._authority.certificate)
        records = all_rights(f"User:{CLIENT_USER}")
        for user in USERS:
            password = secrets.token_urlsafe(32)
            write_secret(client_properties_path(folder, user), self._client_properties(user, password))
            records.append(User.with_password(user, password).record())
        self.records = records
        key = write_secret(folder / f"{CLIENT_USER}.pem", self._authority.issue(CLIENT_USER, "localhost"))
        # Controllers only accept certificates, also from kaput.
        self.controller_access = Access(
            {
                "security.protocol": "SSL",
                **self._trust,
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(key),
            }
        )

    def access(self, user: str = CLIENT_USER) -> Access:
        return Access.read(client_properties_path(self.folder, user))

    def node_settings(self, layout: NodeLayout) -> Mapping[str, str]:
        """A node's security settings; also creates its certificate."""
        layout.data.mkdir(exist_ok=True)
        layout.data.chmod(0o700)  # the metadata log has the SCRAM credentials
        mine = write_secret(
            self.folder / f"{_NODE}-{layout.id}.pem", self._authority.issue(_NODE, layout.host)
        )
        listeners = {
            _CLIENTS: layout.broker_port,
            _INTERNAL: layout.internal_port,
            _CONTROLLER: layout.controller_port,
        }
        settings = {
            "listeners": ",".join(
                f"{name}://{layout.host}:{port}" for name, port in listeners.items() if port is not None
            ),
            "listener.security.protocol.map": f"{_CLIENTS}:SASL_SSL,{_INTERNAL}:SSL,{_CONTROLLER}:SSL",
            "sasl.enabled.mechanisms": MECHANISM,
            f"listener.name.{_CLIENTS.lower()}.{MECHANISM.lower()}.sasl.jaas.config": f"{_SCRAM} required;",
            **{
                f"listener.name.{name.lower()}.ssl.client.auth": "required"
                for name in (_INTERNAL, _CONTROLLER)
            },
            **self._trust,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(mine),
            "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{_NODE}",
        }
        if layout.broker_port is not None:
            settings["inter.broker.listener.name"] = _INTERNAL
        return settings

    @property
    def _trust(self) -> dict[str, str]:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self._authority_path)}

    def _client_properties(self, user: str, password: str) -> str:
        settings = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": f'{_SCRAM} required username="{user}" password="{password}";',
            **self._trust,
        }
        return "".join(f"{key}={value}\n" for key, value in settings.items())


def secrets_folder(nodes: Path, spec: Cluster) -> Path:
    """The folder of a cluster's secrets, beside its nodes' folders. The nodes of all clusters of a run are in
    one folder, and have different ids.
    """
    first, *_ = spec.broker_ids()
    return nodes / (_FOLDER if first == 1 else f"{_FOLDER}-{first}")


def create_security(spec: Cluster, distribution: Distribution, folder: Path) -> Security:
    """Creates the security that `spec` requires. Raises UsageError if this Kafka does not support it."""
    if spec.mode == "zookeeper" or distribution.release < _OLDEST_KAFKA:
        raise UsageError(
            f"security: {spec.security} needs mode: kraft and Kafka {_OLDEST_KAFKA[0]}.{_OLDEST_KAFKA[1]} or "
            f"newer, not {spec.mode} and {distribution.version}"
        )
    return Security(folder)


def client_properties_path(folder: Path, user: str) -> Path:
    """The client properties file of that user."""
    return folder / (CLIENT_PROPERTIES if user == CLIENT_USER else f"{user}.properties")
