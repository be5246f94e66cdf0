"""chantilly with one perceptron, served on a free port. Runs in chantilly's environment, not in ours.

chantilly 0.3.0 was written for river 0.9, which has no build for a current Python. With a current river only one
name is missing, and that in an annotation: it is put back before chantilly is imported.
"""

import sys

import river.metrics
import river.metrics.base

if not hasattr(river.metrics, "Metric"):
    river.metrics.Metric = river.metrics.base.Metric

import chantilly
import dill
from river import linear_model
from waitress import create_server


def main() -> None:
    app = chantilly.create_app({"SHELVE_PATH": sys.argv[1]})
    with app.test_client() as client:
        client.post("/api/init", json={"flavor": "binary"})
        client.post("/api/model/bench", data=dill.dumps(linear_model.Perceptron()))
    # One thread: its storage, a shelve, is not safe for more.
    server = create_server(app, host="127.0.0.1", port=0, threads=1)
    print(f"running on http://127.0.0.1:{server.effective_port}", file=sys.stderr, flush=True)
    server.run()


if __name__ == "__main__":
    main()
