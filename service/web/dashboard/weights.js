// GET /models/{model}/weights in one shape, whatever the model:
// {isWhole, expert, classes: [{label, against, weights: [{feature, weight}]}]}. A feature is a place or a name;
// that of the bias is null, since a name may be "bias" too.
// `label` is what a positive weight speaks for; `against` what a negative one does, if there are but two.

import { getJson, modelPath } from "./api.js";

/** The `most` weights of each class that are farthest from zero, the bias among them; now or `at` a version. */
export async function loadWeights(model, most, at = null) {
  const asked = new URLSearchParams({ largest: most, ...(at === null ? {} : { at }) });
  const answer = await getJson(`${modelPath("models", model)}/weights?${asked}`);
  return readWeights(answer, most);
}

function readWeights({ labels, classes, expert = null }, most) {
  return {
    expert,
    isWhole: classes.every(({ weights }) => weights.length < most),
    classes: classes.map(({ label, weights, bias }) => ({
      label: label ?? labels[1],
      against: label === null ? labels[0] : null,
      weights: bias === null ? weights : [...weights, { feature: null, weight: bias }],
    })),
  };
}

/** The `most` that are farthest from zero, the farthest first. */
export function largest(weights, most) {
  const isMoved = weights.filter(({ weight }) => weight !== 0);
  return isMoved.sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight)).slice(0, most);
}

/** What moved from one reading to the next, the largest move first: [{label, feature, before, weight}]. */
export function moves(before, after, most) {
  const moved = [];
  after.classes.forEach(({ label, weights }, i) => {
    const old = new Map(before.classes[i]?.weights.map((each) => [each.feature, each.weight]));
    for (const { feature, weight } of weights) {
      if (!old.has(feature) && !before.isWhole) continue;
      const was = old.get(feature) ?? 0;
      if (was !== weight) moved.push({ label, feature, before: was, weight });
    }
  });
  return moved.sort((a, b) => Math.abs(b.weight - b.before) - Math.abs(a.weight - a.before)).slice(0, most);
}
