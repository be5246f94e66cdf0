"""A model that learns in the service, and each evening a copy of it as an MLflow model.

The service learns page by page which are phishing. Its export as ONNX is logged with MLflow, with the version and the
error rate that it had, so that it can be registered, compared and deployed as any other model there. Loaded back, it
tells the same label for every page as the service does, without the service.

    pip install mlflow onnx onnxruntime river
    novikoff serve &
    python examples/mlflow_model.py
    mlflow ui

The service itself needs its extra `onnx` for the export.
"""

import argparse
import logging
from contextlib import suppress

import mlflow
import numpy as np
import onnx
from river import datasets

from novikoff import DEFAULT_URL, Client, Refused

MODEL = "example-mlflow"
PAGES = 1_000
COMPARED = 200


def pages() -> tuple[np.ndarray, list[int]]:
    """Features and labels; an exported graph knows whole numbers or words as labels."""
    seen = [(list(features.values()), int(label)) for features, label in datasets.Phishing()][:PAGES]
    # The graph computes with single precision, so both get what that can hold.
    return np.array([features for features, _ in seen], np.float32), [label for _, label in seen]


def log_model(client: Client) -> str:
    """Log the model as it is now; its address in MLflow."""
    graph = onnx.load_model_from_string(client.export_model(MODEL, format="onnx"))
    stats = client.stats(MODEL)
    with mlflow.start_run(run_name=f"{MODEL}-{stats.version}"):
        mlflow.log_params({"novikoff.model": MODEL, "novikoff.version": stats.version})
        mlflow.log_metric("error_rate", stats.error_rate, step=stats.rounds.revealed)
        logged = mlflow.onnx.log_model(graph, name="model", onnx_execution_providers=["CPUExecutionProvider"])
    return logged.model_uri


def main() -> None:
    parser = argparse.ArgumentParser(
        description="A model of the service, logged with MLflow and loaded back."
    )
    parser.add_argument("--url", default=DEFAULT_URL)
    parser.add_argument("--tracking", default="sqlite:///mlflow.db", help="where MLflow keeps its runs")
    parser.add_argument("--artifacts", help="a folder for its files; without it where MLflow puts them")
    options = parser.parse_args()
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    mlflow.set_tracking_uri(options.tracking)
    if mlflow.get_experiment_by_name(MODEL) is None:
        mlflow.create_experiment(MODEL, artifact_location=options.artifacts)
    mlflow.set_experiment(MODEL)
    features, labels = pages()
    with Client(options.url) as client:
        with suppress(Refused):
            client.delete_model(MODEL)
        client.create_model(MODEL, labels=[0, 1])
        client.learn_table(MODEL, features, labels)
        address = log_model(client)
        served = client.predict_table(MODEL, features[:COMPARED])
    print(f"logged as {address}")
    copied = mlflow.pyfunc.load_model(address).predict(features[:COMPARED])
    same = sum(one.label == label for one, label in zip(served, copied["label"].tolist(), strict=True))
    apart = max(abs(one.score - scores[1]) for one, scores in zip(served, copied["scores"], strict=True))
    print(f"{same} of {COMPARED} labels are the same, and scores differ by {apart:.1e} at most")


if __name__ == "__main__":
    main()
