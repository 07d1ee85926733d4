/** Other views of a context: where its tokens are, what left it, and the items of kinds that keep no intervals. */
import { contextAddress } from "./address.js";
import { ask } from "./api.js";
import { cleared, colour, counted, fill, h, kept, number, refill, roleOf, scrolled, tableHead, textOf, time } from "./dom.js";
import { isThere } from "./feed.js";
import { heldOf, sumsOf } from "./windows.js";

const BIGGEST = 12;
// A summary keeps these besides the last turns: instructions are no part of a conversation.
const INSTRUCTIONS = ["system", "developer", "config"];

export async function panel(context, tab, view) {
  if (tab === "tokens") return new Tokens(context, view);
  return new Listed(context, tab, view);
}

/** Tokens by role, over time, and the items that take most. */
class Tokens {
  constructor(context, view) {
    this.context = context;
    this.canvas = h("canvas", { class: "graph", role: "img", "aria-label": "Tokens at each version, with summaries marked" });
    this.budget = Number(kept.getItem("refold-budget")) || 128_000;
    this.kept = 3;
    this.summary = 500;
    // The fields stay, with their texts and the focus, while others write; the words beside them are filled anew.
    const again = () => this.show(this.context.version);
    const field = (value, min, label, width, take) => h("input", { type: "number", value, min, "aria-label": label, style: { width },
      onchange: ({ target }) => { target.value = Math.max(min, Number(target.value) || min); take(Number(target.value)); again(); } });
    [this.total, this.rest, this.full, this.roles, this.after, this.largest] = ["strong", "span", "div", "tbody", "span", "div"].map((tag) => h(tag));
    const title = (text) => h("h2", { style: { margin: "20px 0 8px" } }, text);
    fill(view, h("div", { class: "sheet" },
      h("div", { class: "sums" }, h("div", {}, this.total, h("span", {}, "tokens, estimated")),
        h("label", {}, h("span", { class: "dim" }, "of a budget of "), field(this.budget, 1, "Budget in tokens", "120px", (value) => { this.budget = value; kept.setItem("refold-budget", value); })),
        this.rest),
      this.full, title("By role"), scrolled(this.roles),
      context.kind === "chat" ? [title("After a summary"), h("p", {}, "If a summary of ", field(this.summary, 0, "Tokens of the summary", "80px", (value) => { this.summary = value; }),
        " tokens took the place of all but the last ", field(this.kept, 0, "Turns that stay", "80px", (value) => { this.kept = value; }), " turns: ", this.after)] : null,
      title("Over the versions"), h("div", { style: { height: "140px" } }, this.canvas), title("The largest items"), this.largest));
  }

  show(version) {
    const { items, window } = this.context.index;
    const byRole = new Map();
    const there = [];
    for (const [type, role, tokens] of window?.held.sums ?? []) byRole.set(roleOf(type, role), (byRole.get(roleOf(type, role)) ?? 0) + tokens);
    for (let at = 0; at < items.v0.length; at++) {
      if (!isThere(items, at, version)) continue;
      const role = roleOf(items.type[at], items.role[at]);
      byRole.set(role, (byRole.get(role) ?? 0) + items.tokens[at]);
      there.push(at);
    }
    const total = [...byRole.values()].reduce((sum, one) => sum + one, 0);
    const most = [...there].sort((one, other) => items.tokens[other] - items.tokens[one]).slice(0, BIGGEST);
    const rows = [...byRole].sort((one, other) => other[1] - one[1]);
    fill(this.total, number(total));
    fill(this.rest, total > this.budget ? h("span", { class: "tag bad" }, `${number(total - this.budget)} over the budget`)
      : h("span", { class: "tag good" }, `${number(this.budget - total)} left`));
    fill(this.full, budgetBar(total, this.budget));
    fill(this.roles, rows.map(([role, tokens]) => h("tr", {},
      h("td", { class: "nowrap" }, role), h("td", { class: "number" }, number(tokens)), h("td", { style: { width: "60%" } }, bar(tokens / Math.max(total, 1))))));
    if (this.context.kind === "chat") fill(this.after, this.ifSummarized(there, total));
    refill(this.largest, window?.held.count ? h("p", { class: "dim" }, `Of the last ${counted(there.length, "item")}; the ${number(window.held.count)} before them are not loaded.`) : null,
      scrolled(h("tbody", {}, most.map((at) => h("tr", {},
        h("td", { class: "name" }, h("a", { href: contextAddress(this.context.stream, this.context.isLive ? undefined : version, { msg: items.item[at] }) }, items.item[at])),
        h("td", {}, roleOf(items.type[at], items.role[at])), h("td", { class: "nowrap" }, `@${items.v0[at]}`), h("td", { class: "number" }, number(items.tokens[at])))))));
    this.redraw();
  }

  /** The tokens that a summary of all but the last turns would leave; nothing is changed. */
  ifSummarized(there, total) {
    const { items } = this.context.index;
    const turns = there.filter((at) => items.type[at] === "message" && items.role[at] === "user");
    const first = this.kept ? turns.at(-this.kept) ?? turns[0] : Infinity;
    const summed = there.slice(0, there.includes(first) ? there.indexOf(first) : undefined)
      .filter((at) => !INSTRUCTIONS.includes(roleOf(items.type[at], items.role[at])) && !this.context.isPinned(at));
    const { window } = this.context.index;
    const before = (window?.held.sums ?? []).reduce((sum, [type, role, tokens]) => sum + (INSTRUCTIONS.includes(roleOf(type, role)) ? 0 : tokens), 0);
    const after = summed.length ? total - before - summed.reduce((sum, at) => sum + items.tokens[at], 0) + this.summary : total;
    return [h("strong", { class: "after" }, `${number(total)} → ${number(after)} tokens`), summed.length ? `, ${counted(summed.length + heldOf(this.context.index).count, "item")} in one` : ", nothing is old enough",
      bar(after / this.budget, after > this.budget)];
  }

  redraw() {
    if (!this.canvas.isConnected) return;
    const { index, version } = this.context;
    const { came, left, step } = sumsOf(index);
    const { drawing, width, height } = cleared(this.canvas);
    const sums = new Float64Array(came.length);
    came.forEach((tokens, at) => { sums[at] = (sums[at - 1] ?? 0) + tokens - left[at]; });
    const most = sums.reduce((one, other) => Math.max(one, other), 0);
    const top = Math.max(1, this.budget < 4 * most ? this.budget : 0, most);
    drawing.beginPath();
    drawing.moveTo(0, height);
    sums.forEach((tokens, at) => {
      const y = height - tokens / top * (height - 8);
      drawing.lineTo(at * step / index.head * width, y);
      drawing.lineTo(Math.min(1, (at + 1) * step / index.head) * width, y);
    });
    drawing.lineTo(width, height);
    drawing.fillStyle = colour("accent-soft");
    drawing.fill();
    drawing.strokeStyle = colour("accent");
    drawing.stroke();
    drawing.fillStyle = colour("removed");
    if (this.budget <= top) {
      const y = height - this.budget / top * (height - 8);
      drawing.fillRect(0, y, width, 1);
      drawing.font = "11px system-ui";
      drawing.textAlign = "right";
      drawing.fillText(`budget ${number(this.budget)}`, width - 4, y < 16 ? y + 13 : y - 4);
    }
    drawing.fillStyle = colour("text");
    drawing.font = "10px system-ui";
    for (const mark of this.context.timeline.marks) if (mark.kind === "summary") drawing.fillText("▼", (mark.version - 0.5) / index.head * width - 4, 9);
    drawing.fillRect((version - 0.5) / index.head * width, 0, 1, height);
  }
}

function bar(part) {
  return h("span", { class: "bar" }, h("span", { style: { "--part": `${part * 100}%` } }));
}

/** How full a budget is; what is over it is a part of its own, behind a line where the budget ends. */
function budgetBar(total, budget) {
  const whole = Math.max(total, budget);
  return h("span", { class: total > budget ? "bar budget over" : "bar budget" }, h("span", { style: { "--part": `${Math.min(total, budget) / whole * 100}%` } }),
    total > budget ? h("span", { class: "excess", style: { "--part": `${(total - budget) / whole * 100}%` } }) : null);
}

/** The content of an item as a text; the parts of a message may be pictures. */
const contentOf = (said) => Array.isArray(said) ? said.map((part) => typeof part === "string" ? part : "[picture]").join("\n") : textOf(said);

/** The items that left, or those of a window or a memory: asked for at each version. */
class Listed {
  constructor(context, tab, view) {
    Object.assign(this, { context, tab, view });
  }

  async show(version) {
    const shown = this.found?.items.length ?? 0;
    let found = await this.part(version, 0);
    // The reader may have asked for more at another version.
    while (found.more && found.items.length < shown && version === this.context.version) {
      const next = await this.part(version, found.items.length);
      if (!next.items.length) break;
      found = this.joined(found, next);
    }
    if (version !== this.context.version || !this.view.isConnected) return;
    this.found = found;
    this.draw(version);
  }

  get isLeft() {
    return this.tab === "left";
  }

  part(version, skip) {
    return ask(this.isLeft ? "left" : "view", { context: this.context.stream, version, skip: skip || undefined });
  }

  /** Ask for those that were left out, which come after the others of a list of what left, and before them in a view. */
  async more(version) {
    const { items } = this.found;
    const next = await this.part(version, items.length);
    if (version !== this.context.version || this.found.items !== items) return;
    this.found = this.joined(this.found, next);
    this.draw(version);
  }

  /** A list with the part of it that was asked for next. */
  joined({ items }, next) {
    return { ...next, items: this.isLeft ? [...items, ...next.items] : [...next.items, ...items] };
  }

  draw(version) {
    const { isLeft, found } = this;
    const rows = found.items.map((one) => {
      const said = one.item.content ?? one.item.value ?? one.item.output ?? one.item.arguments ?? one.item.description ?? "";
      return h("tr", {}, h("td", { class: "nowrap" }, `@${one.version}`), h("td", { class: isLeft ? "nowrap roomy" : "nowrap" }, one.item.type ? roleOf(one.item.type, one.item.role) : one.item.source ?? one.item.kind ?? ""),
        h("td", { class: "nowrap dim roomy" }, one.item.id ?? one.item.key ?? ""), h("td", { class: "text" }, h("div", {}, contentOf(said))),
        isLeft ? [h("td", {}, h("span", { class: "tag" }, one.left.how)), h("td", { class: "reason" }, one.left.reason ?? ""), h("td", { class: "nowrap" }, h("a", { href: contextAddress(this.context.stream, one.left.version) }, `@${one.left.version}`))]
          : h("td", { class: "nowrap roomy" }, time(one.recorded_at)));
    });
    const heads = isLeft ? ["Came", ["Role", "roomy"], ["Item", "roomy"], "Text", "How", "Why", "Left"] : ["Came", "Role", ["Item", "roomy"], "Text", ["Recorded", "roomy"]];
    fill(this.view, rows.length ? h("table", {}, tableHead(heads), h("tbody", {}, rows))
      : h("p", { class: "empty" }, isLeft ? "Nothing has left the view up to this version." : "It holds nothing at this version."));
    // A text that is cut off is whole while it has the focus.
    for (const text of this.view.querySelectorAll("td.text > div")) if (text.scrollHeight > text.clientHeight + 1) text.tabIndex = 0;
    if (found.more) {
      const rest = h("div", { class: "rest" }, h("span", {}, isLeft ? `The newest ${number(rows.length)} of ${number(found.count)} departures.` : `The last ${counted(rows.length, "item")}.`),
        h("button", { type: "button", onclick: () => this.more(version).catch((error) => fill(rest, h("span", { role: "alert" }, error.message))) }, "Show more"));
      this.view.prepend(rest);
    }
    if (found.settings && Object.keys(found.settings).length) {
      const { max_tokens: most, ...others } = found.settings;
      this.view.prepend(h("div", { class: "dim settings" }, Object.entries(others).map(([name, value]) => `${name.replaceAll("_", " ")} ${contentOf(value).replaceAll("_", " ")}`).join(" · "),
        h("span", {}, ` · ${number(found.tokens)} ${most ? `of ${number(most)} ` : ""}tokens`), most ? budgetBar(found.tokens, most) : null));
    }
  }
}
