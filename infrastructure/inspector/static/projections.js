/** What is kept for answers: how far each projection is, its faults, and making it anew. */
import { withQuery } from "./address.js";
import { about, ask, change } from "./api.js";
import { debounced, fill, h, number } from "./dom.js";
import { showDialog } from "./keys.js";

export async function screen() {
  const body = h("tbody");
  const said = h("span", { class: "dim" });
  async function load() {
    const found = await ask("projections");
    said.textContent = `${number(found.events)} events in the log`;
    fill(body, found.projections.map((one) => rows(one, found.events, load)));
  }
  await load();
  const element = h("div", { class: "sheet" }, h("header", {}, h("h1", {}, "Projections"), said),
    h("p", { class: "dim" }, "They are folded from the log when they are asked, or all the time by `refold run`. None of them is truth: each can be made anew."),
    h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Projection"), h("th", { scope: "col", class: "number" }, "Version"),
      h("th", { scope: "col", class: "number" }, "Rows"), h("th", { scope: "col", class: "number" }, "Behind"), h("th", { scope: "col" }, "Progress"), h("th", { scope: "col" }, "Worker"), h("th", { scope: "col" }, ""))), body)));
  return { element, title: "Projections", news: debounced(1000, () => load().catch(() => {})) };
}

function rows(one, events, load) {
  const done = events ? 1 - one.behind / events : 1;
  const link = (event) => h("a", { href: withQuery(`/e/${encodeURIComponent(event)}`) }, event);
  const notes = [];
  if (one.stopped_at) notes.push(["bad", "stopped at ", link(one.stopped_at), `: ${one.error ?? ""}`]);
  for (const aside of one.set_aside) notes.push(["warn", "set aside ", link(aside.event), `: ${aside.error}`]);
  if (one.rebuilt) notes.push(["warn", `a rebuild was left after ${number(one.rebuilt)} events`]);
  return [h("tr", {}, h("td", { class: "name" }, one.name), h("td", { class: "number" }, one.version), h("td", { class: "number" }, number(one.rows)),
    h("td", { class: "number" }, number(one.behind)), h("td", {}, h("span", { class: "bar", title: `${Math.round(done * 100)} %` }, h("span", { style: { "--part": `${done * 100}%` } }))),
    h("td", {}, one.worker ?? "-"), h("td", {}, h("button", { type: "button", onclick: () => rebuild(one.name, load) }, "Rebuild"))),
  ...notes.map(([sort, ...text]) => h("tr", {}, h("td", { colspan: 7 }, h("span", { class: `tag ${sort}` }, sort === "bad" ? "stopped" : "note"), " ", text)))];
}

function rebuild(name, load) {
  const mayWrite = Boolean(about().token);
  const said = h("p", { role: "status" });
  const run = (only) => async () => {
    said.textContent = only ? "Comparing…" : "Making it anew, beside the rows in use…";
    try {
      const done = await change("rebuild", { name, only_check: only ? "1" : undefined });
      said.textContent = `${number(done.events)} events in ${done.seconds.toFixed(1)} s, ${number(done.rows)} rows: ${done.differing ? `${number(done.differing)} differ: ${done.differences.join(", ")}` : "all identical"}`;
      await load();
    } catch (error) { fill(said, error.message); }
  };
  showDialog(`Rebuild ${name}`, [h("p", {}, "The rows are made anew beside those in use, compared, and swapped in one transaction."), said,
    mayWrite ? null : h("p", { class: "dim" }, `This page is read-only: start it with --write, or run \`refold rebuild ${name}\`.`)].filter(Boolean),
  [h("button", { type: "button", disabled: !mayWrite, onclick: run(true) }, "Compare only"), h("button", { type: "button", class: "main", disabled: !mayWrite, onclick: run(false) }, "Rebuild")]);
}
