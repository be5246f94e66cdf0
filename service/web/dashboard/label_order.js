// In which order labels are offered for a prediction. It knows nothing about the page.

const KEYS = 9;

/** [{label, key}]: the label that was served first, then those that were most often true when it was served, then the
 *  rest as the model has them. Of few labels each keeps its key whatever was served: hands learn it. Of many, the
 *  first ones have keys. `key` is null where there is none. */
export function offeredLabels(confusion, served) {
  const { labels } = confusion;
  const often = timesTrue(confusion, served);
  const rank = (label) => (label === served ? Infinity : (often.get(label) ?? 0));
  const inOrder = labels.toSorted((one, other) => (rank(one) === rank(other) ? 0 : rank(other) - rank(one)));
  const keyed = labels.length > KEYS ? inOrder : labels;
  const keys = new Map(keyed.slice(0, KEYS).map((label, at) => [label, String(at + 1)]));
  return inOrder.map((label) => ({ label, key: keys.get(label) ?? null }));
}

/** Label → how often it was true when `served` was served, as far as is told. */
function timesTrue({ labels, matrix, largest }, served) {
  if (matrix) {
    const column = labels.indexOf(served);
    return new Map(labels.map((label, row) => [label, matrix[row][column] ?? 0]));
  }
  const told = (largest ?? []).filter((each) => each.served === served);
  return new Map(told.map((each) => [each.true, each.count]));
}
