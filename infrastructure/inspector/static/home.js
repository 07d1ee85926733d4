/** All contexts of the store, or its pools and queues, a page at a time. */
import { contextAddress, eventOf, go, withQuery } from "./address.js";
import { about, ask } from "./api.js";
import { ago, brief, counted, fill, h, merged, named, number, time, withCommands } from "./dom.js";
import { Listing } from "./listing.js";

const POOLS = ["pool", "queue"];
const HEADS = [["Context"], ["Kind"], ["Version", "number"], ["Items", "number roomy"], ["Tokens", "number roomy"], ["User", "roomy"], ["Session", "roomy"],
  ["Forked from", "roomy"], ["Last change"]];
const POOL_HEADS = [["Name"], ["Kind"], ["Version", "number"], ["Holds", "number"], ["Tokens", "number roomy"], ["Branch of", "roomy"], ["By", "roomy"], ["Last change"]];

export async function screen(place) {
  const isPools = place.screen === "pools";
  const { kind = "", user = "", session = "", agent = "" } = place.query;
  const kinds = [["", isPools ? "both" : "all kinds"], ...(isPools ? POOLS : about().kinds).map((one) => [one, one])];
  const damage = h("p", { class: "damage", role: "alert", hidden: true });
  const taken = (page) => {
    damage.hidden = !page.damage;
    fill(damage, `The log cannot be folded, so names and versions are all that is shown here: ${page.damage} `, h("a", { href: withQuery("/projections") }, "Check the whole store"));
  };
  const list = new Listing(isPools ? {
    taken, path: "/pools", question: "contexts", rows: "contexts", wish: { kind }, given: { kind: POOLS.join() }, fields: [["kind", "Kind", kinds]],
    heads: POOL_HEADS, row: poolRow, nouns: ["pool or queue", "pools and queues"], empty: "No pool or queue was opened yet: store.pool(\"notes\") opens one.",
  } : {
    taken, path: "/", question: "contexts", rows: "contexts", wish: { kind, user, session, agent },
    fields: [["kind", "Kind", kinds], ["user", "User"], ["session", "Session"], ["agent", "Agent"]], heads: HEADS, row, nouns: ["context", "contexts"],
    empty: withCommands("The store is empty. `refold import FILE` brings conversations in; an agent that records into it appears here at once."),
  });
  const events = h("span", { class: "dim", hidden: isPools });
  const count = async () => { if (!isPools) events.textContent = `${counted((await ask("meta")).events, "event")} in the log`; };
  await Promise.all([count(), list.load(null)]);
  const missed = about().missed ? h("a", { class: "tag warn", href: withQuery("/projections") }, `${counted(about().missed, "event")} set aside`) : null;
  const title = isPools ? "Pools and queues" : "Contexts";
  const element = h("div", { class: "sheet" }, h("header", {}, h("h1", {}, title), list.said, events, missed),
    damage, list.fault, list.filters, list.table, list.foot);
  return { element, title, news: merged(1000, () => Promise.all([count(), list.refresh()])) };
}

const opens = (stream) => (event) => { if (!event.target.closest("a")) go(contextAddress(stream)); };
const counts = (value, words = number) => value === undefined ? "-" : words(value);
const changed = (one) => one.changed_at ? h("td", { class: "nowrap", title: time(one.changed_at) }, ago(one.changed_at)) : h("td", {}, "-");

function parentOf(one) {
  const parent = one.parent && eventOf(one.parent);
  return h("td", { class: "roomy" }, parent ? h("a", { href: contextAddress(parent.stream, parent.version) }, named(one.parent.replace(/^chat:/, ""))) : "");
}

function row(one) {
  const stream = `${one.kind}:${one.id}`;
  return h("tr", { onclick: opens(stream) },
    h("td", { class: "name" }, h("a", { href: contextAddress(stream) }, named(one.id))), h("td", {}, h("span", { class: "tag" }, one.kind)),
    h("td", { class: "number" }, `@${one.version}`), h("td", { class: "number roomy" }, counts(one.items)), h("td", { class: "number roomy" }, counts(one.tokens, brief)),
    h("td", { class: "roomy" }, one.user ?? ""), h("td", { class: "roomy" }, one.session ?? ""), parentOf(one), changed(one));
}

function poolRow(one) {
  const stream = `${one.kind}:${one.id}`;
  return h("tr", { onclick: opens(stream) },
    h("td", { class: "name" }, h("a", { href: contextAddress(stream) }, named(one.id))), h("td", {}, h("span", { class: "tag" }, one.kind)),
    h("td", { class: "number" }, `@${one.version}`), h("td", { class: "number" }, counts(one.items)), h("td", { class: "number roomy" }, counts(one.tokens, brief)),
    parentOf(one), h("td", { class: "roomy" }, one.changed_by ?? ""), changed(one));
}
