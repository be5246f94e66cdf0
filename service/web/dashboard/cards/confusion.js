// Which label was served for which, as a heat map with counts; and precision, recall and F1 of each class.

import { card, h, setText, table } from "../lib/dom.js";
import { count, labelText, percent, shortLabels } from "../lib/format.js";
import { scrollArea } from "../lib/widgets.js";

const CLASSES_MAX = 50;
const SEVERAL = 4;
const MANY = 12;
const HEAD_LETTERS_MAX = 16;
const NAME_LETTERS_MAX = 24;

export class ConfusionCard {
  #matrix = scrollArea("Confusion matrix", "");
  #classes = scrollArea("Figures of each class", "");
  #shape = null;
  #order = [];
  #names = null;
  #cells = [];
  #rows = [];
  #shown = CLASSES_MAX;
  #stats = null;
  element = card("Confusion", "wide", h("div", { class: "confusion" }, this.#matrix.element, this.#classes.element));

  show(stats) {
    this.#stats = stats;
    const { confusion, classes } = stats;
    const shape = JSON.stringify([confusion.labels, confusion.matrix === null, classes.length, this.#shown]);
    if (shape !== this.#shape) {
      this.#shape = shape;
      this.#order = worstFirst(classes);
      this.#build(confusion, classes);
    }
    if (confusion.matrix) this.#fill(confusion.matrix);
    else this.#list(confusion);
    this.#rows.forEach((cells, i) => {
      const { support, precision, recall, f1 } = classes[this.#order[i]];
      const texts = [count(support), percent(precision), percent(recall), percent(f1)];
      cells.forEach((cell, j) => setText(cell, texts[j]));
    });
  }

  #build({ labels, matrix }, classes) {
    this.element.classList.toggle("many", matrix !== null && labels.length > MANY);
    this.#names = shortLabels(labels.map(labelText), NAME_LETTERS_MAX);
    this.#matrix.element.hidden = !labels.length;
    this.#matrix.fill(...(matrix ? [this.#heatMap(this.#order.map((at) => labels[at]))] : []));
    this.#rows = this.#order
      .slice(0, this.#shown)
      .map(() => Array.from({ length: 4 }, () => h("td", { class: "number" })));
    const body = h(
      "tbody",
      {},
      this.#rows.map((cells, i) => h("tr", {}, head(classes[this.#order[i]].label, "row", this.#names), cells)),
    );
    const caption =
      classes.length > SEVERAL
        ? "Precision, recall and F1 of each class, the worst first"
        : "Precision, recall and F1 of each class";
    this.#classes.fill(
      table(caption, ["Class", "#Support", "#Precision", "#Recall", "#F1"], body),
      ...(classes.length > this.#rows.length ? [this.#more(classes.length)] : []),
    );
  }

  #more(all) {
    const showAll = () => {
      this.#shown = Infinity;
      this.show(this.#stats);
    };
    return h("button", { type: "button", class: "more", onclick: showAll }, `Show all ${count(all)} classes`);
  }

  #heatMap(labels) {
    this.#cells = labels.map(() => labels.map(() => h("td", { class: "cell" })));
    const names = shortLabels(labels.map(labelText), HEAD_LETTERS_MAX);
    const worst = labels.length > SEVERAL ? ", the worst classes first" : "";
    return h(
      "table",
      { class: `heat ${labels.length > MANY ? "dense" : labels.length > SEVERAL ? "several" : ""}` },
      h("caption", {}, `True labels down, served labels across${worst}`),
      h("thead", {}, h("tr", {}, h("td"), labels.map((label) => head(label, "col", names)))),
      h("tbody", {}, labels.map((label, i) => h("tr", {}, head(label, "row", names), this.#cells[i]))),
    );
  }

  /** A row's cells are shares of its true label: the colour is the recall, or where it went instead. */
  #fill(matrix) {
    this.#order.forEach((truth, i) => {
      const row = matrix[truth];
      const support = row.reduce((sum, cell) => sum + cell, 0);
      this.#order.forEach((served, j) => {
        const [cell, number] = [this.#cells[i][j], row[served]];
        setText(cell, count(number));
        cell.classList.toggle("right", i === j);
        cell.classList.toggle("none", number === 0);
        cell.style.setProperty("--heat", support ? Math.sqrt(number / support).toFixed(3) : "0");
      });
    });
  }

  #list({ largest }) {
    const rows = largest.map(({ true: truth, served, count: times }) =>
      h(
        "tr",
        {},
        head(truth, "row", this.#names),
        h("td", { title: String(served) }, text(served, this.#names)),
        h("td", { class: "number" }, count(times)),
      ),
    );
    this.#matrix.fill(
      table("The most common mistakes", ["True", "Served", "#Times"], h("tbody", {}, rows)),
    );
  }
}

/** The places of the classes: of several, the one with the least F1 first, and those last that never were true.
 * It is kept until a class comes, since rows that change places cannot be read. */
function worstFirst(classes) {
  const places = classes.map((_, at) => at);
  if (classes.length <= SEVERAL) return places;
  const badness = ({ support, f1 }) => (support ? (f1 ?? 0) : 2);
  return places.sort((a, b) => badness(classes[a]) - badness(classes[b]) || a - b);
}

/** A head that is shortened is read aloud and pointed at as the whole label. */
function head(label, scope, names) {
  const whole = labelText(label);
  const isShort = shortOf(whole, names) !== whole;
  return h("th", { scope, title: String(label), "aria-label": isShort ? whole : null }, text(label, names));
}

function text(label, names) {
  return h("span", { class: "label" }, shortOf(labelText(label), names));
}

function shortOf(whole, names) {
  return names.get(whole) ?? whole;
}
