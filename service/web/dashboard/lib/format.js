// How numbers, times and labels are written. What is not known yet is a dash.

export const NOTHING = "–";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  timeZoneName: "short",
});
const zoned = new Intl.DateTimeFormat("en-GB", {
  day: "numeric",
  month: "short",
  year: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  timeZoneName: "short",
});

/** 8123 → 8,123 */
export function count(number) {
  return isNothing(number) ? NOTHING : whole.format(number);
}

/** 8123 → 8.1K. Beside an axis whose ticks are `step` apart, with as many decimals as they need: 1250, 250 → 1.25K. */
export function shortCount(number, step = null) {
  if (step === null) return compact.format(number);
  const size = Math.abs(number);
  const unit = [1e12, 1e9, 1e6, 1e3].find((each) => size >= each) ?? 1;
  const digits = Math.max(decimalsOf(step / unit), 0);
  return number.toLocaleString("en", { notation: "compact", maximumFractionDigits: digits });
}

/** A share beside an axis whose ticks are `step` apart: 0.025, 0.025 → 2.5%. */
export function percentTick(ratio, step) {
  return `${(100 * ratio).toFixed(decimalsOf(100 * step))}%`;
}

/** How many decimals a round number has: 2.5 → 1, 0.02 → 2. */
function decimalsOf(number) {
  for (let digits = 0; digits < 12; digits += 1) {
    const scaled = number * 10 ** digits;
    if (Math.abs(scaled - Math.round(scaled)) < 1e-6 * Math.max(1, scaled)) return digits;
  }
  return 12;
}

/** A bound on a count: 1024.7 → 1,024, 123456789 → 1.23e8. */
export function atMost(bound) {
  return bound < 1e7 ? count(Math.floor(bound)) : real(bound);
}

/** 0.0507 → 5.07%, −0.0507 → −5.07% */
export function percent(ratio, digits = 2) {
  return isNothing(ratio) ? NOTHING : `${(100 * ratio).toFixed(digits).replace("-", "−")}%`;
}

/** 0.9 → 90%, 0.9999 → 99.99%: for shares that somebody has chosen. */
export function wholePercent(ratio) {
  return isNothing(ratio) ? NOTHING : `${Number((100 * ratio).toFixed(2))}%`;
}

/** Three significant digits: 0.0983, 12.4, 508,000, 1.2e9. */
export function real(number) {
  if (isNothing(number)) return NOTHING;
  const size = Math.abs(number);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return number.toExponential(2).replace("e+", "e");
  return number.toLocaleString("en", { maximumSignificantDigits: size >= 1000 ? 4 : 3 });
}

/** A number with its sign, and the right minus; with so many decimals that numbers below each other line up. */
export function signed(number, decimals = null) {
  if (isNothing(number)) return NOTHING;
  const size = Math.abs(number);
  const text = decimals === null || (size && size < 10 ** -decimals) ? real(size) : size.toFixed(decimals);
  return number === 0 ? text : `${number < 0 ? "−" : "+"}${text}`;
}

/** How many decimals show three digits of a number, or null if none would do: 9.94 → 2, 0.02 → 4, 2e9 → null. */
export function decimalsFor(number) {
  const decimals = 2 - Math.floor(Math.log10(number || 1));
  return decimals > 6 || decimals < -4 ? null : Math.max(0, decimals);
}

/** −1 to 1 with two decimals. */
export function score(number) {
  return isNothing(number) ? NOTHING : number.toFixed(2).replace("-", "−");
}

const UNITS = [
  ["d", 86400],
  ["h", 3600],
  ["min", 60],
  ["s", 1],
  ["ms", 1e-3],
];

/** Seconds in the unit that suits them: 0.0032 → 3.2 ms, 5400 → 1.5 h. */
export function duration(seconds) {
  if (isNothing(seconds)) return NOTHING;
  if (seconds < 5e-5) return "0 ms";
  const [unit, size] = UNITS.find(([, size]) => seconds >= size) ?? UNITS.at(-1);
  const amount = seconds / size;
  return `${amount < 10 ? Number(amount.toFixed(1)) : Math.round(amount)} ${unit}`;
}

/** How long ago, in one unit. */
export function ago(time, now = Date.now()) {
  const seconds = Math.max(0, (now - Date.parse(time)) / 1000);
  if (seconds < 2) return "a moment ago";
  const [unit, size] = UNITS.find(([, size]) => seconds >= size);
  return `${Math.floor(seconds / size)} ${unit} ago`;
}

/** With the zone: 14:05:09 UTC. */
export function clockTime(time) {
  return clock.format(new Date(time));
}

/** With the date and the zone: 17 Nov 2026, 14:05:09 UTC. */
export function dateTime(time) {
  return zoned.format(new Date(time));
}

/** A label as text. A string that could be taken for a number or a truth value gets quotes. */
export function labelText(label) {
  if (label === null || label === undefined) return NOTHING;
  if (typeof label !== "string") return String(label).replace("-", "−");
  return /^(|true|false|null|[-−+.\d]+)$/.test(label) ? `“${label}”` : label;
}

/** A feature as text: dense ones have a place, others a name; null is the bias. */
export function featureText(feature) {
  if (feature === null) return "bias";
  if (feature === "bias") return "“bias”";
  return typeof feature === "number" ? `x[${feature}]` : feature;
}

/** 1 mistake, 2 mistakes */
export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

function isNothing(number) {
  return number === null || number === undefined || Number.isNaN(number);
}

// Sentences of the service, as people read them.

/** The service marks code in its sentences. */
export function plain(text) {
  return text.replaceAll("`", "");
}

/** A reason as a sentence of its own; nothing if there is none. */
export function sentence(text) {
  return text ? `${text[0].toUpperCase()}${plain(text.slice(1))}.` : "";
}

// Labels that are too long for their place, shortened such that no two of them read the same.

/** {text: its short text} of texts that all differ; none is longer than `most` letters, but for a number that tells
 * those apart that would read the same. */
export function shortLabels(texts, most) {
  const found = new Map();
  const long = texts.filter((text) => [...text].length > most);
  const taken = new Set(texts.filter((text) => !long.includes(text)));
  for (const text of taken) found.set(text, text);
  for (const [text, short] of apart(long, most)) {
    let [unlike, number] = [short, 2];
    for (; taken.has(unlike); number += 1) unlike = `${short} (${number})`;
    taken.add(unlike);
    found.set(text, unlike);
  }
  return found;
}

/** [[text, short]]: those that are alike when their middle goes begin where they differ. */
function apart(texts, most) {
  const groups = Map.groupBy(texts, (text) => withoutMiddle([...text], most));
  return [...groups].flatMap(([short, alike]) => (alike.length === 1 ? [[alike[0], short]] : whereTheyDiffer(alike, most)));
}

function whereTheyDiffer(texts, most, from = 0) {
  const letters = texts.map((text) => [...text]);
  let at = from;
  while (letters.every((each) => at < each.length && each[at] === letters[0][at])) at += 1;
  const groups = Map.groupBy(texts, (text) => shownFrom([...text], at, most));
  return [...groups].flatMap(([short, alike]) => {
    if (alike.length === 1) return [[alike[0], short]];
    // They differ from the others here, and from each other further on.
    return alike.length < texts.length ? whereTheyDiffer(alike, most, at) : alike.map((text) => [text, short]);
  });
}

/** The first letters, which say what it is about, and the text from a place on. */
function shownFrom(letters, at, most) {
  const begin = Math.floor(most / 4);
  if (at <= begin + 1) return withoutMiddle(letters, most);
  return `${letters.slice(0, begin).join("")}…${withoutMiddle(letters.slice(at), most - begin - 1)}`;
}

function withoutMiddle(letters, most) {
  if (letters.length <= most) return letters.join("");
  const end = Math.floor((most - 1) / 2);
  return `${letters.slice(0, most - 1 - end).join("")}…${letters.slice(letters.length - end).join("")}`;
}
