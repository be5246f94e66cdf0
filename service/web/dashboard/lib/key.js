// The API key: asked for when the service wants one, kept for this tab only.

const PLACE = "novikoff-key";

const dialog = document.getElementById("key-dialog");
const input = document.getElementById("key");
const error = document.getElementById("key-error");
const forget = document.getElementById("forget-key");

let asking = null;
let declined = false;

export function currentKey() {
  return sessionStorage.getItem(PLACE);
}

/** Ask once, however many requests were refused. False if the person would rather not say. */
export async function askForKey(refused) {
  if (currentKey() !== refused) return currentKey() !== null;
  if (declined) return false;
  asking ??= ask(refused).finally(() => (asking = null));
  return asking;
}

function ask(refused) {
  error.textContent = refused ? "Invalid API key." : "";
  input.value = "";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "given"), { once: true });
  });
}

/** Set up the dialog; `onGiven` is called when there is another key, `onForgotten` when there is none any more. */
export function installKey(onGiven, onForgotten) {
  forget.hidden = currentKey() === null;
  document.getElementById("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem(PLACE, input.value.trim());
    forget.hidden = false;
    dialog.close("given");
    onGiven();
  });
  document.getElementById("key-cancel").addEventListener("click", () => dialog.close("declined"));
  dialog.addEventListener("close", () => (declined = dialog.returnValue !== "given"));
  forget.addEventListener("click", () => {
    sessionStorage.removeItem(PLACE);
    forget.hidden = true;
    declined = false;
    onForgotten();
  });
}

/** Let the page ask again after a "no". */
export function allowAsking() {
  declined = false;
}
