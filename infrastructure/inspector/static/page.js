/** The frame of all screens: header, news, theme, and the screen of the present address. */
import { eventLink, go, here, onAddress, withQuery } from "./address.js";
import { about, begin, follow, Refused, stateAfter } from "./api.js";
import { counted, debounced, fill, h, icon, kept, merged, number, onFailure, say, withCommands } from "./dom.js";
import { bind, copyText, keyOf, showDialog, showHelp } from "./keys.js";

const SCREENS = {
  home: () => import("./home.js"), context: () => import("./context.js"), diff: () => import("./diff.js"),
  log: () => import("./log.js"), event: () => import("./log.js"), graph: () => import("./lineage.js"),
  node: () => import("./node.js"), search: () => import("./search.js"), usage: () => import("./usage.js"),
  approvals: () => import("./usage.js"), projections: () => import("./projections.js"),
  projection: () => import("./projections.js"), pools: () => import("./home.js"), nodes: () => import("./nodes.js"),
};
// The place in the header of a screen that is not one itself.
const WITHIN = { home: "/", context: "/", event: "/log", diff: "/", node: "/n", nodes: "/n", projection: "/projections" };
const PLACES = [
  ["/", "Contexts", "g c"], ["/pools", "Pools", "g q"], ["/n", "Nodes", "g n"], ["/log", "Log", "g l"],
  ["/graph", "Forks", "g g"], ["/approvals", "Approvals", "g a"],
  ["/usage", "Usage", "g t"], ["/projections", "Projections", "g p"],
];
const THEMES = ["auto", "light", "dark"];
const STATES = { connected: "Live", reconnecting: "Reconnecting", stopped: "Server stopped", damaged: "Log damaged", refused: "Not live" };

const main = document.getElementById("main");
const state = h("span", { class: "state", data: { state: "reconnecting" } }, "Connecting");
const search = h("input", { type: "search", placeholder: "Search", "aria-label": "Search all contexts", name: "q", title: "/" });
// The name of the store, for a reader who has several pages open.
const storeName = h("span", { class: "store" });
let shown = null;
let turn = 0;
// The news that came while a screen was being loaded; null if none is.
let missed = null;
const loading = h("div", { class: "empty" });
// The element that has the focus, and the parts of the page around it, from the innermost on.
let around = [];

function header() {
  const links = PLACES.map(([path, name, key]) =>
    h("a", { href: withQuery(path), data: { path }, title: keyOf(key) }, name));
  const form = h("form", { class: "search", role: "search", onsubmit: (event) => {
    event.preventDefault();
    if (search.value.trim()) go(withQuery("/search", { q: search.value.trim() }));
  } }, search);
  fill(document.getElementById("header"),
    h("a", { class: "brand", href: withQuery("/") }, "Refold"), storeName,
    h("nav", { "aria-label": "Screens" }, links), form, state,
    h("a", { class: "button plain twin", title: `this page as JSON (${keyOf("j")})`, "aria-label": "This page as JSON", href: "#main", target: "_blank", onclick: (event) => { event.preventDefault(); openTwin(); } }, "{ }"),
    h("button", { type: "button", class: "plain", title: "copy the address (Y)", "aria-label": "Copy the address", onclick: copyAddress }, icon("link")),
    h("button", { type: "button", class: "plain", title: "light or dark (T)", "aria-label": "Light or dark", onclick: nextTheme }, icon("sun")),
    h("button", { type: "button", class: "plain", title: "keys (?)", "aria-label": "Keys", onclick: showHelp }, "?"));
}

function nextTheme() {
  const now = THEMES[(THEMES.indexOf(kept.getItem("refold-theme") ?? "auto") + 1) % THEMES.length];
  kept.setItem("refold-theme", now);
  setTheme();
  say(`theme: ${now}`);
  shown?.redraw?.();
}

function setTheme() {
  const wanted = kept.getItem("refold-theme") ?? "auto";
  if (wanted === "auto") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.dataset.theme = wanted;
}

/** Show the screen of the present address; one that is shown already may take the new address itself. */
async function show() {
  const place = here();
  const mine = ++turn;
  for (const link of document.querySelectorAll("nav a")) {
    const isHere = link.dataset.path === (WITHIN[place.screen] ?? `/${place.screen}`);
    if (isHere) {
      link.setAttribute("aria-current", "page");
      // Not scrollIntoView: Tab would begin behind the link.
      link.parentElement.scrollLeft = link.offsetLeft - link.parentElement.offsetLeft - 40;
    }
    else link.removeAttribute("aria-current");
  }
  if (shown && shown.screen === place.screen && await shown.move?.(place).catch(() => false)) {
    if (mine !== turn) return;
    // The reader came back before another one was there, which said that it was loading.
    if (!shown.element.isConnected) { fill(main, shown.element); shown.redraw?.(); }
    settle(place.screen);
    return;
  }
  document.documentElement.removeAttribute("data-ready");
  missed = [];
  fill(loading, "Loading");
  // A reader who has gone back meanwhile sees the screen before, not this.
  const waiting = setTimeout(() => { if (mine === turn) fill(main, loading); }, 150);
  try {
    const load = SCREENS[place.screen];
    if (!load) throw new Refused("NotFoundError", `there is no page ${location.pathname}`, 404);
    const made = await (await load()).screen(place);
    if (mine !== turn) return made.leave?.();
    leave();
    shown = { ...made, screen: place.screen, unbind: bind(made.keys ?? {}) };
    // To a screen reader another address of a page that stays is none: it is told the title.
    if (document.title !== "Refold") say(made.title);
    document.title = `${made.title} · Refold`;
    fill(main, made.element);
    made.entered?.();
    // Its answers may be older than what came while they were on their way.
    for (const [kind, news] of missed) made[kind]?.(news);
  } catch (error) {
    if (mine !== turn) return undefined;
    leave();
    const fault = faultOf(error);
    document.title = `${fault.firstChild.textContent} · Refold`;
    fill(main, fault);
  } finally {
    clearTimeout(waiting);
    if (mine === turn) settle(place.screen);
  }
  return undefined;
}

/** When the element with the focus is removed, give the focus to the part around it that stays: Tab and a screen reader go on there, not at the beginning. */
function keepFocus() {
  if (document.activeElement !== document.body) return;
  const part = around.find((one) => one.isConnected && one.checkVisibility());
  if (!part || part === around[0]) return;
  if (!part.hasAttribute("tabindex")) part.tabIndex = -1;
  part.focus({ preventScroll: true });
}

/** End the screen that is shown, and its keys. */
function leave() {
  shown?.unbind();
  shown?.leave?.();
  shown = null;
}

/** A screen is shown: what comes from now on is for it. */
function settle(name) {
  missed = null;
  document.documentElement.dataset.ready = name;
}

/** Return what is shown in the place of a screen that could not be made. */
export function faultOf(error) {
  const isMissing = error instanceof Refused && error.status === 404;
  const isDamaged = error.kind === "DamagedError";
  const event = /\b((?:chat|queue|pool|window|memory|run):\S+@\d+)/.exec(error.message ?? "")?.[1];
  if (!(error instanceof Refused)) console.error(error);
  return h("section", { class: "fault", role: "alert" },
    h("h1", {}, isMissing ? "Not found" : isDamaged ? "The store is damaged" : "This cannot be shown"),
    h("p", {}, withCommands(error.message)), h("p", { class: "dim" }, error.kind ?? error.name),
    isDamaged ? h("p", {}, "What can still be read is shown on the other screens. ",
      h("a", { href: withQuery("/projections") }, "Check the whole store"), " to see all that is damaged.") : null,
    event ? h("p", {}, eventLink(event, `Look at ${event}`)) : null,
    h("p", { class: "buttons" }, h("button", { type: "button", onclick: show }, "Try again"),
      h("a", { class: "button", href: withQuery("/") }, "All contexts")));
}

let unsaid = 0;
const announce = merged(1500, () => {
  say(counted(unsaid, "new event"));
  unsaid = 0;
});

/** Hand news to the screen that is shown, and to the one that is on its way. */
function hand(kind, news) {
  missed?.push([kind, news]);
  shown?.[kind]?.(news);
}

function takeNews(news) {
  about().moment = news.moment;
  hand("news", news);
  if (!news.events) return;
  unsaid += news.events;
  announce();
}

/** Say how far a first question has come, where a screen waits for its answer. */
function takeFolding({ done, total }) {
  if (!missed) return;
  // Often before it is there to be seen: a question that folds slowly may say no more for a while.
  fill(loading, h("p", {}, "Reading the log for this question, once"), h("progress", { max: total, value: done, "aria-label": "Progress" }),
    h("p", {}, `${number(done)} of ${number(total)} events`));
}

function takeState(now, why) {
  // The first connection is no news.
  if (state.dataset.state !== now && state.textContent !== "Connecting") say(STATES[now] ?? now);
  state.textContent = STATES[now] ?? now;
  state.dataset.state = now;
  state.title = why ?? "";
}

const copyAddress = () => copyText(location.href, "address copied");

/** Show what the page shows as data, beside it. */
function openTwin() {
  open(`${location.pathname}.json${location.search}`, "_blank", "noopener");
}

onFailure((error) => showDialog("This cannot be done", [h("p", { role: "alert" }, withCommands(error.message))]));
setTheme();
header();
onAddress(show);
addEventListener("focusin", ({ target }) => {
  around = [];
  for (let one = target; one; one = one.parentElement?.closest("section, aside, [role], main")) around.push(one);
});
// A press beside all of these parts takes the focus from them.
addEventListener("pointerdown", () => { around = []; }, { capture: true });
new MutationObserver(keepFocus).observe(main, { childList: true, subtree: true, attributes: true, attributeFilter: ["hidden"] });
bind({
  "?": showHelp, t: nextTheme, y: copyAddress, j: openTwin, "/": () => search.focus(),
  ...Object.fromEntries(PLACES.map(([path, , key]) => [key, () => go(shown?.to?.(path) ?? withQuery(path))])),
});
// The code of the screen comes while the store is asked what it is.
SCREENS[here().screen]?.().catch(() => {});
/** Ask which store it is, again and again where there is no answer, and follow its news. */
async function start(isAgain) {
  let found;
  try {
    found = await begin();
  } catch (error) {
    takeState(stateAfter(error), error.message);
    setTimeout(start, 2000, true);
    return;
  }
  fill(storeName, found.store.split(/[/\\]/).at(-1));
  storeName.title = found.store;
  follow(found.moment, { onNews: takeNews, onState: takeState, onJob: (job) => hand("job", job), onFolding: takeFolding });
  if (found.missed) say(`${counted(found.missed, "event")} set aside`);
  if (isAgain) await show();
}

await start();
await show();
addEventListener("resize", debounced(100, () => shown?.redraw?.()));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => shown?.redraw?.());
