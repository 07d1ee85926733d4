/** Forks and merges of all contexts, a row for each, with the lanes of the contexts beside it; two can be compared. */
import { go, short, versionLink, withQuery } from "./address.js";
import { ask } from "./api.js";
import { counted, fill, h, merged, named, number, refill, scrolled, time } from "./dom.js";

const ROWS_MAX = 500;

export async function screen(place) {
  // The rows that were made, by the versions that they are of: one stays, with the focus, as long as its version is a point.
  const rows = new Map();
  let chosen = [];
  const said = h("span", { class: "dim" });
  const shown = h("span", { class: "dim" });
  const compare = h("button", { type: "button", disabled: true, onclick: () => go(withQuery(`/diff/${chosen.map((one) => encodeURIComponent(nameOf(one))).join("...")}`)) }, "Compare");
  const merge = h("button", { type: "button", disabled: true, onclick: async () => (await import("./merge.js")).mergeDialog(...chosen) }, "Merge");
  const isChosen = (point) => chosen.some((one) => nameOf(one) === nameOf(point));
  const choose = (point, row) => {
    chosen = isChosen(point) ? chosen.filter((one) => nameOf(one) !== nameOf(point)) : [...chosen.slice(-1), point];
    const names = new Set(chosen.map(nameOf));
    for (const [name, one] of rows) one.setAttribute("aria-selected", names.has(name));
    compare.disabled = chosen.length < 2;
    merge.disabled = chosen.length < 2 || chosen[0].stream === chosen[1].stream || !chosen.every((one) => one.stream.startsWith("chat:"));
    fill(said, chosen.map((one, at) => [at ? " and " : null, named(`${short(one.stream)}@${one.version}`)]));
    row?.focus();
  };
  const body = h("tbody");
  const table = scrolled(h("thead", {}, h("tr", {}, ["", "Context", "What happened", "By", "When"].map((name) => h("th", { scope: "col", "aria-hidden": name ? null : "true" }, name)))), body);
  const none = h("p", { class: "empty" }, "No context was forked or merged yet.");
  const rowOf = (point) => h("tr", { tabindex: 0, "aria-selected": isChosen(point),
    onclick: (event) => { if (!event.target.closest("a")) choose(point); }, onkeydown: (event) => { if (event.key === "Enter") choose(point); } });
  async function load() {
    const points = await ask("lineage", { context: place.query.context, limit: ROWS_MAX });
    const widest = points.reduce((most, point) => Math.max(most, point.lanes.length), 1);
    const there = points.map((point, at) => {
      const name = nameOf(point);
      if (!rows.has(name)) rows.set(name, rowOf(point));
      const row = rows.get(name);
      row.style.setProperty("border-top", at && points[at - 1].family !== point.family ? "2px solid var(--line)" : "");
      return refill(row, h("td", { class: "lanes", "aria-hidden": "true", style: { "--lanes": widest } }, laneParts(points[at - 1], point, points[at + 1])), cellsOf(point));
    });
    const kept = new Set(there);
    for (const [name, row] of rows) if (!kept.has(row)) rows.delete(name);
    refill(body, there);
    shown.textContent = points.length >= ROWS_MAX ? `the first ${number(ROWS_MAX)}` : counted(points.length, "point");
    table.hidden = !points.length;
    none.hidden = !table.hidden;
  }
  await load();
  const element = h("div", { class: "sheet" },
    h("header", {}, h("h1", {}, "Forks and merges"), shown, h("span", { class: "buttons", style: { margin: "0 0 0 auto" } }, said, compare, merge)), table, none);
  return { element, title: "Forks and merges", news: merged(1000, load) };
}

const nameOf = ({ stream, version }) => `${stream}@${version}`;

const cellsOf = (point) => [
  h("td", { class: "name" }, versionLink(point.stream, point.version), point.is_head ? [" ", h("span", { class: "tag good" }, "head")] : null,
    point.names.map((name) => [" ", h("span", { class: "tag" }, name)])),
  h("td", {}, named(wordsOf(point))), h("td", { class: "nowrap" }, point.actor ?? ""), h("td", { class: "nowrap dim" }, time(point.recorded_at)),
];

/** Return the words about a point, without head, names and actor, which stand in other places. */
function wordsOf({ kind, text, actor }) {
  const words = text.replace(/(^|, )head$/, "").replace(/(^|, )named .*$/, "");
  return (kind === "named" ? "named" : words).replace(` by ${actor}`, "");
}

/** A row of lanes as lines and a dot: "*" is the point, "|" a lane that goes on, "-" and "+" lead to another one. */
function laneParts(above, point, below) {
  const { lanes } = point;
  const parts = [];
  const add = (at, name) => parts.push(h("i", { class: name, style: { "--at": at } }));
  [...lanes].forEach((sign, at) => {
    if (sign === "-") add(at, "across");
    if (!/[*|+]/.test(sign)) return;
    if (goesOn(above, point, at)) add(at, "up");
    if (goesOn(point, below, at)) add(at, "down");
    if (lanes[at + 1] === "-") add(at, "right");
    if (lanes[at - 1] === "-") add(at, "left");
    if (sign === "*") add(at, "dot");
  });
  return lanes.endsWith("…") ? [...parts, h("i", { class: "more", style: { "--at": lanes.length - 1 } }, "…")] : parts;
}

/** Whether a lane goes from one row to the next: not where a context begins in the place of another one. */
function goesOn(upper, lower, at) {
  if (!upper || !lower || upper.family !== lower.family) return false;
  const isBeginning = lower.lanes[at] === "*" && lower.version === 1;
  return !isBeginning && [upper, lower].every((one) => /[*|+]/.test(one.lanes[at] ?? " "));
}
