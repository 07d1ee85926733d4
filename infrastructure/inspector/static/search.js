/** Where something was said, in all contexts. */
import { contextAddress, short } from "./address.js";
import { ask } from "./api.js";
import { h, number } from "./dom.js";

export async function screen(place) {
  const words = place.query.q ?? "";
  const hits = words ? await ask("search", { q: words, limit: 100 }) : [];
  return { title: `Search: ${words}`, element: h("div", { class: "sheet" },
    h("header", {}, h("h1", {}, words ? `“${words}”` : "Search"), h("span", { class: "dim" }, hits.length >= 100 ? "the best 100" : `${number(hits.length)} found`)),
    hits.length ? h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ["Where", "Kind", "Text"].map((name) => h("th", { scope: "col", class: name === "Kind" ? "roomy" : undefined }, name)))), h("tbody", {}, hits.map((hit) => {
      const stream = `${hit.kind}:${hit.context}`;
      return h("tr", {}, h("td", { class: "name" }, h("a", { href: contextAddress(stream, hit.version, { msg: hit.item }) }, `${short(stream)}@${hit.version}`)), h("td", { class: "roomy" }, h("span", { class: "tag" }, hit.kind)), h("td", { class: "text" }, h("div", {}, hit.snippet)));
    })))) : h("p", { class: "empty" }, "Nothing was found. All words must be in one item; begin* finds the beginning of a word.")) };
}
