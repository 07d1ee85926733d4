/** Why an item is in a context, or not: the events that brought and removed it, and what led to them; and finding items. */
import { eventLink, short } from "./address.js";
import { ask } from "./api.js";
import { fill, h, named, number, time } from "./dom.js";
import { pair } from "./details.js";
import { isThere } from "./feed.js";

const HOW = {
  evict: "It was evicted.", truncate: "It was among the oldest when the context was cut to a limit.",
  summarize: "A summary stands in its place.", undo_summary: "The summary was taken back for what it stood for.",
  clear: "The context was cleared.", replace: "Other instructions took its place.", change: "A person changed the call before it ran.",
  limit: "It made room for others.", room: "It made room for others.", merge: "A merge removed it.",
  fork: "The fork did not take it over.", branch: "The branch did not take it over.", drop: "The window never admitted it.",
};
const FOUND_MAX = 60;

/** Return why an item is in the view: the events that brought it. */
export async function whyHere(screen, at) {
  const { items } = screen.index;
  const entered = `${screen.stream}@${items.v0[at]}`;
  const refs = [...new Set([items.birth[at], entered])];
  const [recorded, came] = await Promise.all(refs.map((event) => ask("event", { event })));
  return [h("h3", {}, "Why is it here?"),
    told("It was recorded", recorded), came ? told("It came into this context", came) : null];
}

/** Return why an item is not in the view any more: what removed it, who, when and because of what. */
export async function whyGone(screen, at) {
  const { items } = screen.index;
  const removed = await ask("event", { event: `${screen.stream}@${items.v1[at]}` });
  const summary = items.how[at] === "summarize" ? items.birth.indexOf(`${screen.stream}@${items.v1[at]}`) : -1;
  return [h("h3", {}, "Why is it not in the context?"), h("p", {}, HOW[items.how[at]] ?? `It left by ${items.how[at]}.`),
    summary >= 0 ? h("p", {}, h("button", { type: "button", onclick: () => screen.choose(summary) }, "Show the summary")) : null,
    told("It left", removed, [...pair("policy", items.how[at]), ...pair("because", items.reason[at])])];
}

/** Return the same for an item that no version of this context ever showed. */
async function whyMissing(screen, name) {
  const found = await ask("why", { context: screen.stream, item: name });
  if (found.state === "never") return [h("h3", {}, "Why is it not in the context?"), h("p", {}, "It never was in it.")];
  if (found.state === "there") return [h("p", {}, "It is in the newest version.")];
  const removed = await ask("event", { event: found.reference });
  return [h("h3", {}, "Why is it not in the context?"), h("p", {}, HOW[found.how] ?? `It left by ${found.how}.`),
    told("It left", removed, [...pair("policy", found.how), ...pair("because", found.reason)])];
}

/** An event as the reason of something: who, when, its words, and the chain of events that led to it. */
function told(said, event, more = []) {
  const ref = `${event.stream}@${event.version}`;
  const lines = new Map(event.chain.map((line) => [`${line.stream}@${line.version}`, line]));
  const cause = (name) => {
    const line = lines.get(name);
    return h("li", {}, line ? eventLink(name, short(name)) : name, line ? h("span", { class: "dim" }, ` ${time(line.at)} · `, h("bdi", {}, line.actor ?? "-"), " · ", h("bdi", {}, line.text)) : null);
  };
  return [h("dl", {}, pair(said, eventLink(ref, short(ref))), pair("when", time(event.recorded_at)), pair("by", event.actor ?? "-"),
    more, pair("model", event.event.model), pair("event", event.type)), h("p", { class: "words" }, event.text.slice(0, 400)),
  event.causes.length ? [h("p", {}, "It follows from"), h("ol", {}, event.causes.map(cause))] : h("p", { class: "dim" }, "No other event was named as its cause.")];
}

/** Return the items that words are in, or that a name means, each with what became of it. */
export async function found(screen, query) {
  const { index, kind, stream } = screen;
  const hits = await ask("search", { q: query, kind, context: stream.slice(kind.length + 1), limit: FOUND_MAX }).catch((error) => error);
  const places = new Set();
  const others = new Map();
  const meant = screen.placeOf(query);
  if (meant !== null) places.add(meant);
  for (const hit of Array.isArray(hits) ? hits : []) {
    const ref = `${hit.kind}:${hit.context}@${hit.version}`;
    const at = screen.placeOf(hit.item) ?? screen.placeOf(ref);
    if (at === null) others.set(ref, hit);
    else places.add(at);
  }
  const isName = !places.size && !others.size && !/\s/.test(query);
  const answer = h("div");
  if (isName) fill(answer, await whyMissing(screen, query).catch(() => null));
  const row = (at) => {
    const { items } = index;
    return h("li", {}, h("button", { type: "button", onclick: () => screen.choose(screen.placeOf(items.item[at] || items.birth[at])) }, items.item[at] || items.birth[at]), " ",
      h("span", { class: "tag" }, stateOf(items, at, screen.version)), h("div", { class: "dim" }, hitOf(hits, items.item[at])?.snippet ?? ""));
  };
  // Beyond the window of a very long context an item is not known yet: its beginning has it.
  const isBeyond = (hit) => index.window && `${hit.kind}:${hit.context}` === stream;
  const other = ([ref, hit]) => h("li", {}, h("button", { type: "button", onclick: async () => {
    if (isBeyond(hit)) screen.goTo(hit.item, hit.version);
    else fill(answer, await whyMissing(screen, ref));
  } }, named(short(ref))), " ", h("span", { class: "tag" }, isBeyond(hit) ? `came with @${hit.version}` : "not taken over"), h("div", { class: "dim" }, hit.snippet));
  const count = places.size + others.size;
  return [h("h2", {}, count ? `${number(count)} found` : "Nothing was found"), h("p", { class: "dim" }, hits.message ?? `“${query}”, in this context and in those it comes from`),
    h("ol", { class: "found" }, [...places].map(row), [...others].map(other)), answer];
}

const hitOf = (hits, item) => Array.isArray(hits) ? hits.find((hit) => hit.item === item) : null;

function stateOf(items, at, version) {
  if (isThere(items, at, version)) return "in the view";
  return items.v0[at] > version ? `comes with @${items.v0[at]}` : `left with @${items.v1[at]}: ${items.how[at]}`;
}
