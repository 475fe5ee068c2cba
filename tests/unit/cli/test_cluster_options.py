"""Which cluster an argument names."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaput.cli.options import standing_cluster
from kaput.cluster.kafka_cluster import ClusterAddress
from kaput.errors import UsageError


def test_address_is_used_as_the_cluster_name(tmp_path: Path) -> None:
    """With the settings of the file, if one is given."""
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SSL\n")
    assert standing_cluster("h:1,g:2", None) == ClusterAddress("h:1,g:2", "h:1,g:2")
    found = standing_cluster("h:1", config)
    assert found == ClusterAddress("h:1", "h:1", config) and found.access.protocol == "SSL"


@pytest.mark.parametrize(
    ("text", "settings", "told"),
    [
        ("h:none", "", "'h:none' is neither HOST:PORT,... nor a cluster name"),
        ("nobody", "", "no cluster named 'nobody' is running"),
        ("h:1", "ssl.truststore.type=JKS", "kaput only reads PEM"),
        ("h:1", "security.protocol=alone", "is none of PLAINTEXT, SSL"),
    ],
)
def test_invalid_cluster_argument_is_rejected(text: str, settings: str, told: str, tmp_path: Path) -> None:
    """Before anything is done to a cluster."""
    config = tmp_path / "client.properties"
    config.write_text(settings)
    with pytest.raises(UsageError, match=told):
        standing_cluster(text, config)
