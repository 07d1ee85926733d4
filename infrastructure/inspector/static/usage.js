/** Tokens and costs by day and model; and the calls that wait for a person. */
import { contextAddress } from "./address.js";
import { about, ask, change } from "./api.js";
import { ago, fill, h, merged, number, refill, scrolled, tableHead, time, withCommands } from "./dom.js";

export async function screen(place) {
  return place.screen === "approvals" ? approvals() : usage(place);
}

async function usage() {
  const sums = [["counted_in", "input tokens"], ["counted_out", "output tokens"], ["counted_cached", "of them cached"]];
  const numbers = ["About", "In", "Out", "Cached", "Cost, $"];
  const said = h("div", { class: "sums" });
  const body = h("tbody");
  const table = scrolled(tableHead(["Day", "Agent", "Model", ...numbers.map((name) => [name, "number"])]), body);
  const none = h("p", { class: "empty" }, "No message was recorded yet.");
  async function load() {
    const rows = await ask("usage", { by: "day,agent,model" });
    const sum = (name) => rows.reduce((all, row) => all + row[name], 0);
    refill(said, sums.map(([name, label]) => h("div", {}, h("strong", {}, number(sum(name))), h("span", {}, label))),
      h("div", {}, h("strong", {}, `$${sum("cost").toFixed(4)}`), h("span", {}, "cost")));
    // A day is said once, and what nobody counted is left empty.
    refill(body, rows.map((row, at) => h("tr", {}, h("td", { class: "nowrap" }, rows[at - 1]?.day === row.day ? "" : row.day), h("td", {}, row.agent || "-"), h("td", {}, row.model ?? ""),
      [row.tokens_in + row.tokens_out, row.counted_in, row.counted_out, row.counted_cached].map((one) => h("td", { class: "number" }, one ? number(one) : "")),
      h("td", { class: "number" }, row.cost ? row.cost.toFixed(4) : ""))));
    table.hidden = !rows.length;
    none.hidden = !table.hidden;
  }
  await load();
  return { title: "Usage", news: merged(1000, load), element: h("div", { class: "sheet" }, h("header", {}, h("h1", {}, "Usage")), said, table, none) };
}

async function approvals() {
  const body = h("div");
  const mayWrite = Boolean(about().token);
  // Each call has its place as long as it waits, with what a person writes there.
  const places = new Map();
  const placeOf = (one) => {
    const key = JSON.stringify([one.context, one.call_id, one.requested_at, one.approval]);
    if (!places.has(key)) places.set(key, placeFor(one));
    const { place, asked } = places.get(key);
    fill(asked, " · asked ", ago(one.requested_at), one.approval?.by ? [" by ", h("bdi", {}, one.approval.by)] : null);
    return place;
  };
  const placeFor = (one) => {
    const because = h("input", { placeholder: "why", "aria-label": "Why" });
    const fault = h("span", { role: "alert" });
    const decide = (decision) => async () => {
      try {
        await change("decide", { context: `chat:${one.context}`, call_id: one.call_id, decision, because: because.value || undefined });
        await load();
      } catch (error) { fill(fault, error.message); }
    };
    const asked = h("span", { class: "dim", title: time(one.requested_at) });
    const place = h("article", { class: "change changed" },
      h("div", {}, h("strong", {}, one.name), " in ", h("a", { href: contextAddress(`chat:${one.context}`, undefined, { msg: one.item_id }) }, one.context), asked),
      h("pre", { tabindex: 0 }, one.arguments), one.approval?.because ? h("p", {}, one.approval.because) : null,
      mayWrite ? h("p", { class: "buttons approve" }, because, h("button", { type: "button", class: "main", onclick: decide("approve") }, "Approve"), h("button", { type: "button", onclick: decide("reject") }, "Reject"), fault)
        : h("p", { class: "dim" }, withCommands("Decide with `refold approvals`, or start this page with --write.")));
    return { place, asked };
  };
  async function load() {
    const waiting = await ask("approvals");
    refill(body, waiting.length ? waiting.map(placeOf) : h("p", { class: "empty" }, "No call waits for a person."));
  }
  await load();
  return { title: "Approvals", news: merged(300, load), element: h("div", { class: "sheet" }, h("header", {}, h("h1", {}, "Approvals")), body) };
}
