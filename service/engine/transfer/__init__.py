"""Models as files: exports of all that a model is, and ONNX."""
