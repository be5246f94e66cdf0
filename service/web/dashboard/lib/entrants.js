// Who is compared: a model, or one of its learners, written "model/challenger". No name has a slash in it.

import { getJson, modelPath } from "./api.js";
import { count } from "./format.js";

/** So many are compared at most. */
export const MOST = 8;
const OF_THE_MODEL = ["challengers", "champion", "promote"];

export function compareAddress(names) {
  return `#/compare?${new URLSearchParams({ models: names.join(",") })}`;
}

/** "spam/arow" → {model: "spam", challenger: "arow"}; of a model itself, `challenger` is null. */
export function entrantOf(text) {
  const [model, challenger = null] = text.split("/");
  return { text, model, challenger };
}

/** {text, about, stats, contest, curve, settings, href} of each that is there, and sentences on those that are not. `about`
 * is whose rounds it is about, null for a model that has no challengers; `contest` is how a learner stands beside its champion; `stats` is what the model has beside that, null for a challenger. `curve` has
 * mistakes over rounds and the model's round at which it begins, `since`; null if it is not known. */
export async function readEntrants(texts) {
  const entrants = texts.map(entrantOf);
  const models = [...new Set(entrants.map(({ model }) => model))];
  const hasLearner = (model) => entrants.some((each) => each.model === model && each.challenger !== null);
  const read = new Map(await Promise.all(models.map(async (model) => [model, await readModel(model, hasLearner(model))])));
  const found = entrants.map((each) => entrant(each, read.get(each.model)));
  return { found: found.filter((each) => !each.missing), missing: found.flatMap(({ missing }) => missing ?? []) };
}

/** What can be added, by what was typed: models, and the learners of those that have challengers. */
export async function offersFor(typed, limit) {
  const query = new URLSearchParams({ contains: entrantOf(typed).model, limit, fields: "model,challengers" });
  const { models } = await getJson(`stats?${query}`);
  return models.flatMap(({ model, challengers }) => [model, ...learnersOf(model, challengers)]).slice(0, 2 * limit);
}

/** The address of a comparison of a model with its challengers. */
export function leagueAddress(model, challengers) {
  return compareAddress([model, ...learnersOf(model, challengers)].slice(0, MOST));
}

/** The challengers; and the champion, if others have served before it: what it did then is not in the model's figures. */
function learnersOf(model, challengers) {
  if (!challengers) return [];
  const { champion, line, promotions } = challengers;
  return [...(promotions ? [champion] : []), ...line].map(({ name }) => `${model}/${name}`);
}

/** {stats, info, curves} of a model, `curves` those of its learners if they are wanted; null if there is none. */
async function readModel(name, withCurves) {
  try {
    const path = modelPath("stats", name);
    const [stats, info, asked] = await Promise.all([
      getJson(path),
      getJson(modelPath("models", name)),
      withCurves ? getJson(`${path}?fields=learner_curves`) : {},
    ]);
    return { stats, info, curves: asked.learner_curves ?? [] };
  } catch (error) {
    if (error.status === 404 || error.status === 422) return null;
    throw error;
  }
}

function entrant({ text, model, challenger }, read) {
  if (read === null) return { missing: `There is no model ${model}.` };
  const { stats, info, curves } = read;
  const href = `#/models/${encodeURIComponent(model)}`;
  const settings = ownSettings(info.settings);
  if (challenger === null) {
    const about = servedInWords(stats.challengers);
    return { text, about, href, stats, contest: null, curve: { ...stats.curve, since: 0 }, settings };
  }
  const curve = fromItsBeginning(curves.find(({ name }) => name === challenger));
  const { champion, line } = stats.challengers ?? { champion: null, line: [] };
  if (champion?.name === challenger) {
    const about = `this learner, serving${sinceInWords(champion)}`;
    return { text, about, href, stats: null, contest: { ...champion, algorithm: stats.algorithm }, curve, settings };
  }
  const contest = line.find(({ name }) => name === challenger);
  if (!contest) return { missing: `${model} has no challenger ${challenger}.` };
  const own = { ...settings, ...info.settings.challengers[challenger] };
  return { text, about: `this learner, beside ${champion.name}`, href, stats: null, contest, curve, settings: own };
}

/** A model's figures are about what was served, whichever learner was the champion then. */
function servedInWords(challengers) {
  if (!challengers) return null;
  const { champion, promotions } = challengers;
  return promotions ? `what was served, by ${champion.name}${sinceInWords(champion)}` : `what was served, by ${champion.name}`;
}

/** Since when a champion serves, if it has not from the beginning on. */
export function sinceInWords({ since_round: since }) {
  return since ? ` since round ${count(since)}` : "";
}

/** A learner's curve from 0 on; one that an older version had begun without a curve begins later than its rounds. */
function fromItsBeginning(told) {
  if (!told) return null; // it came or went between two requests
  const { rounds, mistakes, since_round: since } = told;
  return {
    rounds: rounds.map((each) => each - rounds[0]),
    mistakes: mistakes.map((each) => each - mistakes[0]),
    since: since + rounds[0],
  };
}

/** Settings that a learner has; who challenges a model is none of them. */
function ownSettings(settings) {
  return Object.fromEntries(Object.entries(settings).filter(([name]) => !OF_THE_MODEL.includes(name)));
}
