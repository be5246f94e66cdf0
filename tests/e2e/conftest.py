from collections.abc import Iterator

import pytest

from tests.nats_servers import NatsCluster


@pytest.fixture(scope="module")
def nats_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    """Three servers that the tests of a module share."""
    cluster = NatsCluster(tmp_path_factory.mktemp("cluster")).start()
    yield cluster
    cluster.close()
