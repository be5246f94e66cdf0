// Elements are made here and nowhere else. Strings become text nodes: nothing is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element with attributes, `on…` listeners and children; null children are left out. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same in SVG. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Change a text only if it differs, so that screen readers and selections are left in peace. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A section of the page: a heading, an optional line beside it, and what is in it. */
export function card(title, className, ...children) {
  const id = `card-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  return h(
    "section",
    { class: `card ${className}`, "aria-labelledby": id },
    h("h2", { id }, title),
    ...children,
  );
}

/** A table with a caption for screen readers. `heads` are texts; those that begin with # are numbers. */
export function table(caption, heads, body) {
  const cells = heads.map((head) => {
    const text = head.replace(/^#/, "");
    return h("th", { scope: "col", class: head === text ? null : "number", title: text.length > 24 ? text : null }, text);
  });
  return h("table", {}, h("caption", { class: "unseen" }, caption), h("thead", {}, h("tr", {}, cells)), body);
}

/** A name that stays recognisable when it is too long: the middle goes, not the end. */
export function longName(name) {
  if (name.length <= 24) return [h("span", { class: "head" }, name)];
  return [h("span", { class: "head" }, name.slice(0, -10)), h("span", { class: "tail" }, name.slice(-10))];
}
