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
