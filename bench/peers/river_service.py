"""River's perceptron behind FastAPI, as one would write it in ten minutes: nothing is kept on disk."""

from collections import defaultdict

from fastapi import FastAPI
from pydantic import BaseModel
from river import linear_model


class Round(BaseModel):
    model: str
    features: list[float]
    label: int


app = FastAPI(telemetry={"tracing": False, "metrics": False, "logs": False})
models: defaultdict[str, linear_model.Perceptron] = defaultdict(linear_model.Perceptron)


@app.post("/learn")
async def learn(body: Round) -> dict[str, bool]:
    model = models[body.model]
    features = dict(enumerate(body.features))
    predicted = model.predict_one(features)
    model.learn_one(features, body.label > 0)
    return {"predicted": bool(predicted)}
