// Which label was served for which, as a heat map with counts; and precision, recall and F1 of each class.

import { card, h, setText, table } from "./dom.js";
import { count, labelText, percent } from "./format.js";

const CLASSES_MAX = 50;
const LARGEST_MAX = 20;
const SEVERAL = 4;
const MANY = 12;

export class ConfusionCard {
  #matrix = h("div", { class: "scroll" });
  #classes = h("div", { class: "scroll" });
  #shape = null;
  #cells = [];
  #rows = [];
  element = card("Confusion", "wide", h("div", { class: "confusion" }, this.#matrix, this.#classes));

  show({ confusion, classes }) {
    const shape = JSON.stringify([confusion.labels, confusion.matrix === null, classes.length]);
    if (shape !== this.#shape) {
      this.#shape = shape;
      this.#build(confusion, classes);
    }
    if (confusion.matrix) this.#fill(confusion.matrix);
    else this.#list(confusion);
    classes.slice(0, CLASSES_MAX).forEach(({ support, precision, recall, f1 }, i) => {
      const texts = [count(support), percent(precision), percent(recall), percent(f1)];
      this.#rows[i].forEach((cell, j) => setText(cell, texts[j]));
    });
  }

  #build({ labels, matrix }, classes) {
    this.element.classList.toggle("many", matrix !== null && labels.length > MANY);
    this.#matrix.replaceChildren(...(matrix ? [this.#heatMap(labels)] : []));
    this.#rows = classes
      .slice(0, CLASSES_MAX)
      .map(() => Array.from({ length: 4 }, () => h("td", { class: "number" })));
    const body = h(
      "tbody",
      {},
      this.#rows.map((cells, i) => h("tr", {}, head(classes[i].label, "row"), cells)),
    );
    const more = classes.length - this.#rows.length;
    this.#classes.replaceChildren(
      table(
        "Precision, recall and F1 of each class",
        ["Class", "#Support", "#Precision", "#Recall", "#F1"],
        body,
      ),
      ...(more > 0 ? [h("p", { class: "more" }, `and ${count(more)} more`)] : []),
    );
  }

  #heatMap(labels) {
    this.#cells = labels.map(() => labels.map(() => h("td", { class: "cell" })));
    return h(
      "table",
      { class: `heat ${labels.length > MANY ? "dense" : labels.length > SEVERAL ? "several" : ""}` },
      h("caption", {}, "True labels down, served labels across"),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("td"),
          labels.map((label) => head(label, "col")),
        ),
      ),
      h(
        "tbody",
        {},
        labels.map((label, i) => h("tr", {}, head(label, "row"), this.#cells[i])),
      ),
    );
  }

  /** A row's cells are shares of its true label: the colour is the recall, or where it went instead. */
  #fill(matrix) {
    matrix.forEach((row, i) => {
      const support = row.reduce((sum, cell) => sum + cell, 0);
      row.forEach((number, j) => {
        const cell = this.#cells[i][j];
        setText(cell, count(number));
        cell.classList.toggle("right", i === j);
        cell.classList.toggle("none", number === 0);
        cell.style.setProperty("--heat", support ? Math.sqrt(number / support).toFixed(3) : "0");
      });
    });
  }

  #list({ largest }) {
    const rows = largest
      .slice(0, LARGEST_MAX)
      .map(({ true: truth, served, count: times }) =>
        h(
          "tr",
          {},
          head(truth, "row"),
          h("td", {}, text(served)),
          h("td", { class: "number" }, count(times)),
        ),
      );
    this.#matrix.replaceChildren(
      table("The commonest mistakes", ["True", "Served", "#Times"], h("tbody", {}, rows)),
    );
  }
}

function head(label, scope) {
  return h("th", { scope, title: String(label) }, text(label));
}

function text(label) {
  return h("span", { class: "label" }, labelText(label));
}
