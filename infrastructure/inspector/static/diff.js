/** What differs between two versions, of one context or of two. */
import { contextAddress, short } from "./address.js";
import { ask } from "./api.js";
import { h, number } from "./dom.js";
import { bind } from "./keys.js";

export async function screen(place) {
  const found = await ask("diff", { before: place.before, after: place.after });
  const changes = [
    ...found.removed.map((one) => ["removed", one]), ...found.added.map((one) => ["added", one]),
    ...found.changed.map((pair) => ["changed", pair]), ...found.moved.map((one) => ["moved", one]),
  ];
  // In the order of the newer version; what it does not have comes where it was, before the rest.
  const order = new Map(found.order.map((ref, at) => [ref, at]));
  const placeOf = ([sort, one]) => order.get(sort === "changed" ? one.to.ref : one.ref) ?? -1;
  changes.sort((one, other) => placeOf(one) - placeOf(other));
  const shown = changes.map(([sort, one]) => block(sort, one));
  let at = -1;
  const step = (by) => {
    if (!shown.length) return;
    shown[at]?.removeAttribute("aria-current");
    at = (at + by + shown.length) % shown.length;
    shown[at].setAttribute("aria-current", "true");
    shown[at].scrollIntoView({ block: "center" });
  };
  const unbind = bind({ n: () => step(1), p: () => step(-1) });
  const link = (side) => h("a", { href: contextAddress(side.context, side.version) }, `${short(side.context)}@${side.version}`);
  const same = found.after.items - found.added.length - found.changed.length - found.moved.length;
  const element = h("div", { class: "sheet" },
    h("header", {}, h("h1", {}, link(found.before), " → ", link(found.after)),
      h("span", { class: "dim" }, `tokens ${number(found.before.tokens)} → ${number(found.after.tokens)} (${found.tokens >= 0 ? "+" : ""}${number(found.tokens)})`)),
    h("p", {}, [["added", found.added], ["removed", found.removed], ["changed", found.changed], ["moved", found.moved]]
      .map(([name, list]) => [h("span", { class: `tag${name === "added" ? " good" : name === "removed" ? " bad" : ""}` }, `${number(list.length)} ${name}`), " "]),
    h("span", { class: "dim" }, `${number(same)} unchanged · next change N, change before P`)),
    shown.length ? shown : h("p", { class: "empty" }, "Both hold the same items."));
  return { element, title: "Differences", leave: unbind };
}

function block(sort, one) {
  const item = sort === "changed" ? one.to : one;
  const body = sort === "changed" ? compared(one.from.body, one.to.body) : item.body;
  return h("article", { class: `change ${sort}` },
    h("div", { class: "dim" }, h("strong", {}, item.speaker), ` ${sort} · `, h("a", { href: contextAddress(...addressOf(item.ref)) }, short(item.ref))),
    h("div", { class: "body", tabindex: 0 }, body), item.cut ? h("span", { class: "dim" }, `${number(item.cut)} more characters`) : null);
}

function addressOf(ref) {
  const cut = ref.lastIndexOf("@");
  return [ref.slice(0, cut), Number(ref.slice(cut + 1))];
}

const WORDS_MAX = 1_500;

/** Return two texts as one, with what went and what came marked, word by word. */
export function compared(before, after) {
  const [old, now] = [before, after].map((text) => text.split(/(\s+)/));
  if (old.length > WORDS_MAX || now.length > WORDS_MAX) return [h("del", {}, before), "\n", h("ins", {}, after)];
  const rows = now.length + 1;
  const lengths = new Uint16Array((old.length + 1) * rows);
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      lengths[i * rows + j] = old[i] === now[j] ? lengths[(i + 1) * rows + j + 1] + 1
        : Math.max(lengths[(i + 1) * rows + j], lengths[i * rows + j + 1]);
    }
  }
  const parts = [];
  let i = 0;
  let j = 0;
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) { parts.push(now[j]); i++; j++; }
    else if (j < now.length && (i === old.length || lengths[i * rows + j + 1] >= lengths[(i + 1) * rows + j])) parts.push(h("ins", {}, now[j++]));
    else parts.push(h("del", {}, old[i++]));
  }
  return parts;
}


