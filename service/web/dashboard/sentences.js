// Sentences of the service, as people read them.

/** The service marks code in its sentences. */
export function plain(text) {
  return text.replaceAll("`", "");
}

/** A reason as a sentence of its own; nothing if there is none. */
export function sentence(text) {
  return text ? `${text[0].toUpperCase()}${plain(text.slice(1))}.` : "";
}
