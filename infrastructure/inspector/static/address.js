/** The address of a page is its whole state: /c/CONTEXT@VERSION, with the rest after the question mark. */
import { ROOT } from "./api.js";
import { h, named } from "./dom.js";

/** The name of a context; that of a chat has no kind in front, unless it would look like one. */
export const short = (stream) => stream.replace(/^chat:(?=[^:]*$)/, "");
const coded = (text) => encodeURIComponent(text).replaceAll("%3A", ":");

/** Return the address of a context, at a version or between two. */
export function contextAddress(stream, version, given = {}) {
  const at = version === undefined || version === null ? "" : `@${version}`;
  return withQuery(`/c/${coded(short(stream))}${at}`, given);
}

export function withQuery(path, given = {}) {
  const query = new URLSearchParams(Object.entries(given).filter(([, value]) => value !== undefined && value !== null && value !== ""));
  return `${ROOT}${path}${query.size ? `?${query}` : ""}`;
}

/** The address of a node of a run, as it is now or was at a version of the run. */
export function nodeAddress(stream, name, round, sub, version = undefined) {
  const [, user, session] = /^run:([^/]*)\/([^/]*)/.exec(stream) ?? [];
  return withQuery(`/n/${encodeURIComponent(name)}${version ? `@${version}` : ""}`, { user: user && decodeURIComponent(user), session: session && decodeURIComponent(session), round, sub, context: stream });
}

/** Return the stream and the version of an event, given its reference `STREAM@VERSION`. */
export function eventOf(reference) {
  const at = reference.lastIndexOf("@");
  return { stream: reference.slice(0, at), version: Number(reference.slice(at + 1)) };
}

export const eventAddress = (reference) => withQuery(`/e/${encodeURIComponent(reference)}`);

/** Return a link to a version of a context, by its name. */
export const versionLink = (stream, version, given = {}) => h("a", { href: contextAddress(stream, version, given) }, named(`${short(stream)}@${version}`));

/** Return a link to an event. */
export const eventLink = (reference, text = reference) => h("a", { href: eventAddress(reference) }, named(text));

/** Return what a part of an address says; a percent sign that somebody typed is one. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Return the screen of an address, the present one if none is given: its name, and what it shows. */
export function here({ pathname, search } = location) {
  const path = pathname.slice(ROOT.length);
  const query = Object.fromEntries(new URLSearchParams(search));
  const [, screen, ...rest] = path.split("/");
  const name = decoded(rest.join("/"));
  if (screen === "c" && name) {
    const place = contextOf(name);
    return { screen: place.before ? "diff" : "context", ...place, query };
  }
  if (screen === "diff" && name) {
    const [before, after] = name.split("...");
    return { screen: "diff", before, after, query };
  }
  if (screen === "e") return { screen: "event", event: name, query };
  if (screen === "n") return name ? { screen: "node", node: name, query } : { screen: "nodes", query };
  if (screen === "projections" && name) return { screen: "projection", name, query };
  return { screen: screen || "home", query };
}

/** Take CTX, CTX@V or CTX@A..B apart; all but plain versions is for the server to read. An open A is the beginning. */
function contextOf(name) {
  const [, context, at] = /^([^@]*)(?:@(.*))?$/s.exec(name);
  const range = /^(.*?)\.\.(.*)$/s.exec(at ?? "");
  if (range) return { before: `${context}@${range[1] || 0}`, after: range[2] ? `${context}@${range[2]}` : context };
  if (at === undefined || /^\d+$/.test(at)) return { context, version: at && Number(at) };
  return { context, address: at };
}

let changed = () => {};
export const onAddress = (call) => { changed = call; };

/** Go to another address; the browser's Back returns from it. */
export function go(address) {
  if (address !== location.pathname + location.search) history.pushState(null, "", address);
  changed();
}

/**
 * Write the address of what is shown already: without a step for Back, or with one. A screen from which the reader has
 * gone, or which comes after he went back, writes none.
 */
export function note(address, isStep = false) {
  if (address === location.pathname + location.search || subjectOf(address) !== subjectOf(location)) return;
  if (isStep) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}

/** Return the subject of an address, which is the same at each version: the screen, and its context or node. */
function subjectOf(address) {
  const { screen, context = "", node = "" } = here(new URL(address, location.origin));
  return [screen, short(context), node].join(" ");
}

/** Write the full name of the context of the present address, where it was opened by another one. */
export function noteName(name, stream) {
  const { context, version, address, query } = here();
  if (context === name && short(name) !== short(stream)) history.replaceState(null, "", contextAddress(stream, version ?? address, query));
}

addEventListener("popstate", () => changed());
addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (link.target || link.origin !== location.origin || link.getAttribute("href").startsWith("#")) return;
  event.preventDefault();
  go(link.pathname + link.search);
});
