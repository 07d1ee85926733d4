/** A node: every change of its attributes, who made it, when, and because of what. */
import { contextAddress, note, withQuery } from "./address.js";
import { ask } from "./api.js";
import { compared } from "./diff.js";
import { fill, h, number, time } from "./dom.js";

export async function screen(place) {
  const { user, session, round, sub, context } = place.query;
  const changes = await ask("node", { name: place.node, user, session, round, sub });
  const names = [...new Set(changes.map((one) => one.attribute).filter(Boolean))];
  const body = h("tbody");
  const said = h("span", { class: "dim" });
  const select = h("select", { "aria-label": "Attribute", style: { width: "200px" }, onchange: () => show(select.value) },
    h("option", { value: "" }, "all attributes"), names.map((name) => h("option", { value: name, selected: name === place.query.attribute }, name)));
  function show(attribute) {
    const wanted = changes.filter((one) => !attribute || one.attribute === attribute);
    said.textContent = `${number(wanted.length)} changes`;
    fill(body, wanted.map(row));
    note(withQuery(`/n/${encodeURIComponent(place.node)}`, { ...place.query, attribute }));
  }
  const element = h("div", { class: "sheet" },
    h("header", {}, h("h1", {}, place.node), said, select, context ? h("a", { href: contextAddress(context) }, "its run") : null),
    h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ["When", "By", "Attribute", "What became of it", "Event", "Because of"].map((name) => h("th", { scope: "col" }, name)))), body)));
  show(place.query.attribute ?? "");
  return { element, title: place.node };
}

const textOf = (value) => value === null || value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);

function row(one) {
  const link = (ref) => ref ? h("a", { href: withQuery(`/e/${encodeURIComponent(ref)}`) }, ref.replace(/^run:/, "")) : "";
  const changed = one.old === null || one.old === undefined ? h("ins", {}, textOf(one.new)) : one.new === null ? h("del", {}, textOf(one.old))
    : compared(textOf(one.old), textOf(one.new));
  return h("tr", {}, h("td", { class: "nowrap" }, time(one.recorded_at)), h("td", {}, one.actor ?? "-"), h("td", {}, one.attribute || one.kind),
    h("td", { style: { "overflow-wrap": "anywhere" } }, changed), h("td", { class: "name" }, link(one.reference)), h("td", { class: "name" }, one.cause && /@\d+$/.test(one.cause) ? link(one.cause) : one.cause ?? ""));
}
