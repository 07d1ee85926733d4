/** The keys of the page: one table for what they do, what the buttons say, and the help. */
import { fill, h, kept, say } from "./dom.js";

/** Keys by name, in the groups of the help; the screens say what each does while they are shown. */
const GROUPS = {
  "Versions": [
    ["ArrowLeft", "←", "one version back"], ["ArrowRight", "→", "one version on"],
    ["Shift+ArrowLeft", "Shift ←", "to the last user turn"], ["Shift+ArrowRight", "Shift →", "to the next user turn"],
    ["Alt+ArrowLeft", "Alt ←", "last change of what is chosen"], ["Alt+ArrowRight", "Alt →", "next change of what is chosen"],
    ["Home", "Home", "to the beginning"], ["End", "End", "to the newest version"],
    ["Space", "Space", "play, pause"], ["l", "L", "follow what is written"],
  ],
  "What is shown": [
    ["d", "D", "compare from here"], ["n", "N", "next change"], ["p", "P", "change before"],
    ["w", "W", "narrow: from here, to here, all again"], ["s", "S", "find an item here"], ["f", "F", "fork here"], ["m", "M", "the graph beside a chat"],
    ["[", "[", "wider details"], ["]", "]", "narrower details"], ["Escape", "Esc", "close, clear"],
  ],
  "Screens": [
    ["g c", "G C", "contexts"], ["g q", "G Q", "pools and queues"], ["g n", "G N", "nodes, or the chosen one"], ["g l", "G L", "log"],
    ["g g", "G G", "forks and merges"], ["g a", "G A", "approvals"], ["g t", "G T", "tokens and costs"], ["g p", "G P", "projections"], ["/", "/", "search"],
    ["t", "T", "light or dark"], ["y", "Y", "copy the address"], ["j", "J", "this page as JSON"], ["?", "?", "this help"],
  ],
};
export const KEYS = Object.values(GROUPS).flat();
// Items, a graph and the lines of a log have keys of their own while they have the focus.
const LISTS = {
  "Among the items": [["↑  ↓", "choose the next one"]],
  "In a graph": [["←  →", "along the edges"], ["↑  ↓", "in the same column"], ["Enter", "open the node"], ["+  −  0", "nearer, farther, all"]],
  "In a log": [["↑  ↓", "one line"], ["Page ↑  ↓", "one screen"], ["Home  End", "first, last line"], ["Enter", "open the first line"]],
};
const OFF = "refold-keys-off";
const actions = new Map();
let prefix = "";

/** Say what a key does from now on; returns a function that forgets it. An action that returns false leaves the key to the browser. */
export function bind(keys) {
  for (const [name, run] of Object.entries(keys)) actions.set(name, run);
  return () => {
    for (const [name, run] of Object.entries(keys)) if (actions.get(name) === run) actions.delete(name);
  };
}

/** The names of the keys that do something now. */
export const bound = () => [...actions.keys()];

export const keyOf = (name) => KEYS.find(([key]) => key === name)?.[1] ?? "";

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.defaultPrevented) return;
  // An open dialog has all keys for itself: its own Esc closes it.
  if (document.querySelector("dialog[open]")) return;
  const field = event.target.closest?.("input:not([type=range]), textarea, select, [contenteditable]");
  if (field && event.key !== "Escape") return;
  const isSingle = event.key.length === 1 && event.key !== " ";
  if (isSingle && kept.getItem(OFF) === "1" && event.key !== "?") return;
  // A button has its own meaning of the space bar, a list its own arrows.
  if (event.key === " " && event.target.closest?.("button, a, summary")) return;
  // The help writes letters in capitals: between two of them Shift may be let go.
  if (event.key === "Shift") return;
  const name = event.key === " " ? "Space" : isSingle ? event.key.toLowerCase() : event.key;
  if (event.altKey && isSingle) return;
  const full = prefix ? `${prefix} ${name}` : event.altKey ? `Alt+${name}` : event.shiftKey && !isSingle ? `Shift+${name}` : name;
  prefix = !prefix && name === "g" ? "g" : "";
  const run = actions.get(full);
  if (run && run(event) !== false) event.preventDefault();
});

/** Show the help, made from the table. */
export function showHelp() {
  const row = ([shown, what]) => h("tr", {}, h("th", { scope: "row" }, h("kbd", {}, shown)), h("td", {}, what));
  const group = ([title, rows]) => h("section", {}, h("h3", {}, title), h("table", { class: "keys" }, h("tbody", {}, rows.map(row))));
  const all = [...Object.entries(GROUPS).map(([title, rows]) => [title, rows.map(([, ...shown]) => shown)]), ...Object.entries(LISTS)];
  const isOff = kept.getItem(OFF) === "1";
  const box = h("input", { type: "checkbox", checked: isOff, onchange: () => kept.setItem(OFF, box.checked ? "1" : "0") });
  const dialog = showDialog("Keys", [
    h("div", { class: "key-groups" }, all.map(group)),
    h("label", { class: "choice" }, box, " no single letters as keys"),
  ]);
  dialog.classList.add("wide");
  // The first field has the focus, and is at the end.
  dialog.scrollTop = 0;
}

/** Show a dialog with a title; returns it, and closes by Esc, by its button, or by `close()`. */
export function showDialog(title, children, buttons = []) {
  const dialog = h("dialog", { "aria-labelledby": "dialog-title", onclose: () => dialog.remove() });
  const close = h("button", { type: "button", onclick: () => dialog.close() }, "Close");
  fill(dialog, h("h2", { id: "dialog-title" }, title), ...children, h("p", { class: "buttons" }, buttons, close));
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Copy a text; where the browser does not allow it, show the text, so that a person can copy it. */
export function copyText(text, said) {
  const show = () => showDialog("Copy", [h("pre", {}, text)]);
  if (navigator.clipboard) navigator.clipboard.writeText(text).then(() => say(said), show);
  else show();
}
