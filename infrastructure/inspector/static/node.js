/** A node as of a version: its attributes, and every change of them, who made it, when, and because of what. */
import { contextAddress, eventLink, eventOf, nodeAddress, note, withQuery } from "./address.js";
import { ask } from "./api.js";
import { compared } from "./diff.js";
import { counted, h, merged, named, refill, scrolled, tableHead, textOf, time } from "./dom.js";

const HEADS = ["Version", "When", "By", "Attribute", "What became of it", "Because of"];

/** Every change of a node, the first one first; each has its run as `stream`, and its version there. */
export async function historyOf(where) {
  const found = await ask("node", where);
  // Runs go on side by side, so that versions give no order.
  return found.map((one) => ({ ...one, ...eventOf(one.reference) })).sort((one, other) => one.recorded_at < other.recorded_at ? -1 : Number(one.recorded_at > other.recorded_at));
}

/** Return whether a change is later than a version of a run; other rounds, which may share the node, are compared by time. */
export const laterThan = (stream, version, at) => (one) => one.stream === stream ? one.version > version : Date.parse(one.recorded_at) > at;

/** The attributes that changes leave, by name. */
export function valuesAfter(changes) {
  const values = new Map(changes.filter((one) => one.attribute).map((one) => [one.attribute, one.new]));
  return [...values].filter(([, value]) => value !== null && value !== undefined);
}

export async function screen(place) {
  const { user, session, round, sub, context } = place.query;
  // A name ends with a bracket, so what follows an @ after it is the version of the run.
  const [, name, at] = /^(.*\))@(\d+)$/s.exec(place.node) ?? [null, place.node, undefined];
  const then = at && context ? Date.parse((await ask("event", { event: `${context}@${at}` })).recorded_at) : Infinity;
  const isLater = laterThan(context, at === undefined ? Infinity : Number(at), then);
  let changes = [];
  const body = h("tbody");
  const values = h("dl", { class: "attributes" });
  const said = h("span", { class: "dim" });
  const select = h("select", { "aria-label": "Attribute", style: { width: "200px" }, onchange: () => show(select.value) });
  function show(attribute) {
    const wanted = changes.filter((one) => !attribute || one.attribute === attribute);
    said.textContent = counted(wanted.length, "change");
    refill(body, wanted.map((one) => row(one, name, isLater(one))));
    note(withQuery(`/n/${encodeURIComponent(place.node)}`, { ...place.query, attribute }));
  }
  async function load(attribute) {
    changes = await historyOf({ name, user, session, round, sub });
    const names = [...new Set(changes.map((one) => one.attribute).filter(Boolean))];
    refill(select, h("option", { value: "" }, "all attributes"), names.map((one) => h("option", { value: one }, one)));
    select.value = names.includes(attribute) ? attribute : "";
    refill(values, valuesAfter(changes.filter((one) => !isLater(one))).map(([one, value]) => [h("dt", {}, one), h("dd", {}, textOf(value))]));
  }
  await load(place.query.attribute);
  const element = h("div", { class: "sheet" },
    h("header", {}, h("h1", {}, place.node), said, select, context ? h("a", { href: contextAddress(context, at, { node: name }) }, "its run") : null,
      at === undefined ? null : h("a", { href: nodeAddress(context, name, round, sub) }, "as it is now")),
    values, scrolled(tableHead(HEADS), body));
  show(select.value);
  const follow = merged(1000, async () => {
    await load(select.value);
    show(select.value);
  });
  // Only runs change nodes; without names of contexts, anything may have changed.
  const isAboutRuns = (heads) => !Object.keys(heads).length || Object.keys(heads).some((stream) => stream.startsWith("run:"));
  return { element, title: place.node, news: (news) => { if (isAboutRuns(news.heads)) follow(); } };
}

function row(one, name, isLater) {
  const changed = one.old === null || one.old === undefined ? one.new === "" ? h("span", { class: "dim" }, "empty") : h("ins", {}, textOf(one.new)) : one.new === null ? h("del", {}, textOf(one.old))
    : compared(textOf(one.old), textOf(one.new));
  return h("tr", { class: isLater ? "later" : undefined }, h("td", { class: "name short" },
    h("a", { href: contextAddress(one.stream, one.version, { node: name }), title: "go to this version of its run" }, named(one.reference.replace(/^run:/, ""))), isLater ? [" ", h("span", { class: "tag" }, "later")] : null),
  h("td", { class: "nowrap" }, time(one.recorded_at)), h("td", { class: "nowrap" }, one.actor ?? "-"), h("td", {}, one.attribute || one.kind),
  h("td", { class: "said" }, changed), h("td", { class: "name" }, eventLink(one.reference, one.kind === "registered" ? "its registration" : "a change"),
    one.cause && /@\d+$/.test(one.cause) ? [" from ", eventLink(one.cause, one.cause.replace(/^run:/, ""))] : one.cause ? ` from ${one.cause}` : null));
}
