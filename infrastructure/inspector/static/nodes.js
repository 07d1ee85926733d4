/** The nodes of all runs, by type: to find one whose history is asked for. */
import { contextAddress, nodeAddress, short, withQuery } from "./address.js";
import { about } from "./api.js";
import { h, merged, named, number, time } from "./dom.js";
import { Listing } from "./listing.js";

const HEADS = [["Node"], ["What it says"], ["Changes", "number roomy"], ["Run"], ["Registered", "roomy"]];

export async function screen(place) {
  const { type = "", label = "", user = "", session = "" } = place.query;
  const list = new Listing({ path: "/n", question: "nodes", rows: "nodes", wish: { type, label, user, session },
    fields: [["type", "Type", [["", "all types"], ...about().node_types.map((one) => [one, one])]], ["label", "Label"], ["user", "User"], ["session", "Session"]],
    heads: HEADS, row, nouns: ["node", "nodes"], empty: "No run has a node yet." });
  await list.load(null);
  const element = h("div", { class: "sheet" }, h("header", {}, h("h1", {}, "Nodes"), list.said,
    h("span", { class: "dim" }, "of all runs, as they are now; ", h("a", { href: withQuery("/search") }, "Search"), " finds what was said")), list.fault, list.filters, list.table, list.foot);
  return { element, title: "Nodes", news: merged(1000, () => list.refresh()) };
}

function row(one) {
  return h("tr", { class: one.removed_by ? "later" : undefined },
    h("td", { class: "name short" }, h("a", { href: nodeAddress(one.stream, one.name, one.round, one.sub) }, one.name), one.removed_by ? [" ", h("span", { class: "tag bad" }, "removed")] : null),
    h("td", { class: "text" }, h("div", {}, one.text)), h("td", { class: "number roomy" }, one.changes ? number(one.changes) : ""),
    h("td", { class: "name short" }, h("a", { href: contextAddress(one.stream, one.version, { node: one.name }) }, named(`${short(one.stream).replace(/^run:/, "")}@${one.version}`))),
    h("td", { class: "nowrap dim roomy" }, time(one.created_at * 1000)));
}
