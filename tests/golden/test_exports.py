"""Exports that 0.1.0 has written are taken, to the same weights and statistics."""

from tests.golden.archives import FILES
from tests.golden.transcripts import load, stable_statistics
from tests.support.service_process import Service


def test_exports_of_version_0_1_0_become_the_same_models(service: Service) -> None:
    exports = load(FILES / "exports.json.xz")
    found = {told["path"]: told["answer"] for told in load(FILES / "stopped.json.xz")["found"]}
    assert len(exports) == len({export["name"] for export in exports}) > 150
    for export in exports:
        of, name = export["name"], f"golden-{export['name']}"
        answer = service.client.put(f"/models/{name}", json=export)
        assert answer.status_code == 201, answer.text
        assert service.get(f"/models/{name}/weights") == found[f"/models/{of}/weights"] | {"model": name}
        stats, expected = service.stats(name), found[f"/stats/{of}"]
        # What waits and when it was made does not travel; what has expired does.
        for told in (stats, expected):
            del told["created_at"], told["rounds"]["pending"], told["rounds"]["predicted"]
        of_both = [{**told, "created_at": None} for told in (stats, expected)]
        assert stable_statistics(of_both[0]) == stable_statistics(of_both[1])
        service.client.delete(f"/models/{name}")
