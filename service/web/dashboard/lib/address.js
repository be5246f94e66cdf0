// What the address asks for, after its last "?": "#/models/spam?at=12&from=100".

/** What an address asks for, as a URLSearchParams. */
export function askedIn(hash) {
  return new URLSearchParams(hash.split("?")[1] ?? "");
}

/** The address that asks for other things, or, where they are null, for none; what else it says stays. */
export function withAsked(hash, changes) {
  const asked = askedIn(hash);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) asked.delete(name);
    else asked.set(name, value);
  }
  const [path] = hash.split("?");
  return asked.size ? `${path}?${asked}` : path;
}

/** Change what the address of this page asks for; the view stays. */
export function ask(changes) {
  history.replaceState(null, "", withAsked(location.hash, changes));
}
