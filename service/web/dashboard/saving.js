// Giving people files: an answer of the service, or a table as CSV.

/** Offer some text or bytes as a file. */
export function save(name, content, type) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}

/** Rows of values as CSV. A text that a spreadsheet would take for a formula gets an apostrophe. */
export function asCsv(rows) {
  return rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

function cell(value) {
  if (value === null || value === undefined) return "";
  const text = typeof value === "string" && /^[=+@\t\r-]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Statistics as rows of a name and a value: {rounds: {pending: 1}} → [["rounds.pending", 1]]. */
export function flat(value, name = "") {
  if (value === null || typeof value !== "object") return [[name, value]];
  const at = (key) => (name ? `${name}.${key}` : String(key));
  return Object.entries(value).flatMap(([key, each]) => flat(each, at(key)));
}
