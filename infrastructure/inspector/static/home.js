/** All contexts of the store, a page at a time. */
import { contextAddress, go, note, withQuery } from "./address.js";
import { about, ask } from "./api.js";
import { ago, brief, debounced, fill, h, merged, number, time } from "./dom.js";

export async function screen(place) {
  const wish = { kind: place.query.kind ?? "", user: place.query.user ?? "", session: place.query.session ?? "" };
  const body = h("tbody");
  const more = h("button", { type: "button", onclick: () => load(cursor) }, "Show more");
  const counted = h("span", { class: "dim" });
  let cursor = null;
  let count = 0;

  async function load(after) {
    const page = await ask("contexts", { ...wish, kind: wish.kind || undefined, user: wish.user || undefined,
      session: wish.session || undefined, cursor: after ?? undefined });
    if (!after) { fill(body); count = 0; }
    body.append(...page.contexts.map(row));
    count += page.contexts.length;
    cursor = page.cursor;
    more.hidden = !cursor;
    counted.textContent = cursor ? `the first ${number(count)} contexts` : `${number(count)} contexts`;
    empty.hidden = count > 0;
    damage.hidden = !page.damage;
    fill(damage, `The log cannot be folded, so names and versions are all that is shown here: ${page.damage} `, h("a", { href: withQuery("/projections") }, "Check the whole store"));
    fill(empty, wish.kind || wish.user || wish.session ? "No context fits." :
      "The store is empty. `refold import FILE` brings conversations in; an agent that records into it appears here at once.");
  }
  const again = debounced(250, () => {
    note(withQuery("/", wish));
    load(null).catch(() => {});
  });
  const field = (name, label) => h("label", {}, label, h("input", { value: wish[name], name, autocomplete: "off",
    oninput: (event) => { wish[name] = event.target.value.trim(); again(); } }));
  const kinds = h("select", { name: "kind", onchange: (event) => { wish.kind = event.target.value; again(); } },
    h("option", { value: "" }, "all kinds"), about().kinds.map((kind) => h("option", { value: kind, selected: kind === wish.kind }, kind)));
  const empty = h("p", { class: "empty" });
  const damage = h("p", { class: "damage", role: "alert", hidden: true });
  const element = h("div", { class: "sheet" },
    h("header", {}, h("h1", {}, "Contexts"), counted, h("span", { class: "dim" }, `${number(about().events)} events in the log`)),
    damage, h("div", { class: "filters" }, h("label", {}, "Kind", kinds), field("user", "User"), field("session", "Session")),
    h("div", { class: "scroll" }, h("table", {},
      h("thead", {}, h("tr", {}, ["Context", "Kind"].map((name) => h("th", { scope: "col" }, name)),
        ["Version", "Items", "Tokens"].map((name) => h("th", { scope: "col", class: name === "Items" ? "number roomy" : "number" }, name)),
        ["User", "Session", "Forked from"].map((name) => h("th", { scope: "col", class: "roomy" }, name)), h("th", { scope: "col" }, "Last change"))), body)),
    empty, h("p", { class: "buttons" }, more));
  await load(null);
  const refresh = merged(1000, () => count <= 200 ? load(null) : null);
  return { element, title: "Contexts", news: refresh };
}

function row(one) {
  const stream = `${one.kind}:${one.id}`;
  const parent = /^(.*)@(\d+)$/.exec(one.parent ?? "");
  return h("tr", { onclick: (event) => { if (!event.target.closest("a")) go(contextAddress(stream)); } },
    h("td", { class: "name" }, h("a", { href: contextAddress(stream) }, one.id)),
    h("td", {}, h("span", { class: "tag" }, one.kind)),
    h("td", { class: "number" }, `@${one.version}`), h("td", { class: "number roomy" }, one.items === undefined ? "-" : number(one.items)),
    h("td", { class: "number" }, one.tokens === undefined ? "-" : brief(one.tokens)), h("td", { class: "roomy" }, one.user ?? ""), h("td", { class: "roomy" }, one.session ?? ""),
    h("td", { class: "roomy" }, parent ? h("a", { href: contextAddress(parent[1], Number(parent[2])) }, one.parent.replace(/^chat:/, "")) : ""),
    one.changed_at ? h("td", { class: "nowrap", title: time(one.changed_at) }, ago(one.changed_at)) : h("td", {}, "-"));
}
