// Features as people type them.

/** What the text means: a list of numbers, or names with values. Throws an Error that says what is wrong.
 *  "1, 2.5" → [1, 2.5]   "free=1, from=bob" → {free: 1, from: "bob"}   JSON is taken as it is. */
export function parseFeatures(text) {
  const trimmed = text.trim();
  if (!trimmed) throw new Error("Type the features of an example first.");
  if (/^[[{]/.test(trimmed)) return parseJson(trimmed);
  const parts = trimmed.split(/[\s,;]+/).filter(Boolean);
  if (parts.every(isNumber)) return parts.map(Number);
  return Object.fromEntries(
    trimmed
      .split(/[,;\n]+/)
      .map((pair) => pair.trim())
      .filter(Boolean)
      .map(parsePair),
  );
}

function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("That is not valid JSON.");
  }
}

function parsePair(pair) {
  const [, name, value] = /^([^=:]+)[=:](.*)$/.exec(pair) ?? [];
  if (!name) throw new Error(`“${pair}” is neither a number nor a name with a value, such as free=1.`);
  const typed = value.trim();
  if (isNumber(typed)) return [name.trim(), Number(typed)];
  return [name.trim(), typed === "true" ? true : typed === "false" ? false : typed];
}

function isNumber(text) {
  return /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(text);
}

/** A label as typed: one that the model has, else a number or a truth value, else a string. */
export function parseLabel(text, labels) {
  const typed = text.trim();
  const known = labels.find((label) => String(label) === typed);
  if (known !== undefined) return known;
  return /^(true|false|-?\d{1,15})$/.test(typed) ? JSON.parse(typed) : typed;
}

/** An example that such a model could get, as text; `weights` name features that it knows. */
export function exampleFor({ settings, dimension }, weights) {
  const { kind, text = [] } = settings.features;
  if (kind === "dense") return Array.from({ length: dimension ?? 2 }, someNumber).join(", ");
  const names = weights
    .map(({ feature }) => feature)
    .filter((name) => typeof name === "string");
  const example = {};
  for (const name of names.sort(() => Math.random() - 0.5).slice(0, 4)) {
    const [field, value] = splitOnce(name, "=");
    if (value === null) example[field] = 1;
    else example[field] = text.includes(field) && example[field] ? `${example[field]} ${value}` : value;
  }
  return JSON.stringify(names.length ? example : { word: 1 });
}

function someNumber() {
  return (4 * Math.random() - 2).toFixed(1);
}

function splitOnce(text, separator) {
  const at = text.indexOf(separator);
  return at < 0 ? [text, null] : [text.slice(0, at), text.slice(at + separator.length)];
}
