/** Where something was said, in all contexts. */
import { versionLink } from "./address.js";
import { ask } from "./api.js";
import { h, merged, number, refill, scrolled, tableHead } from "./dom.js";

const HITS_MAX = 100;

export async function screen(place) {
  const words = place.query.q ?? "";
  const said = h("span", { class: "dim" });
  const body = h("tbody");
  const table = scrolled(tableHead(["Where", ["Kind", "roomy"], "Text"]), body);
  const none = h("p", { class: "empty" }, `${words ? "Nothing was found. " : ""}All words must be in one item; begin* finds the beginning of a word.`);
  async function load() {
    const hits = words ? await ask("search", { q: words, limit: HITS_MAX }) : [];
    refill(body, hits.map(row));
    said.textContent = !words ? "" : hits.length >= HITS_MAX ? `the best ${HITS_MAX}` : `${number(hits.length)} found`;
    table.hidden = !hits.length;
    none.hidden = !table.hidden;
  }
  await load();
  return { title: words ? `Search: ${words}` : "Search", news: merged(1000, load), element: h("div", { class: "sheet" }, h("header", {}, h("h1", {}, words ? `“${words}”` : "Search"), said), table, none) };
}

function row(hit) {
  const stream = `${hit.kind}:${hit.context}`;
  return h("tr", {}, h("td", { class: "name" }, versionLink(stream, hit.version, { msg: hit.item })), h("td", { class: "roomy" }, h("span", { class: "tag" }, hit.kind)), h("td", { class: "text" }, h("div", {}, hit.snippet)));
}
