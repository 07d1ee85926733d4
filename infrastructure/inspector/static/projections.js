/** The rows that are kept for answers: how far each projection is, its faults, making it anew; the check of the store. */
import { eventLink, withQuery } from "./address.js";
import { about, ask, change } from "./api.js";
import { counted, fill, h, merged, number, refill, say, span, tableHead, textOf, withCommands } from "./dom.js";
import { Listing } from "./listing.js";

const STORE = "*";
const VALUE_MAX = 240;
const HEADS = [["Projection"], ["Schema", "number"], ["Rows", "number"], ["Position", "number"], ["Behind", "number"],
  ["Events/s", "number"], ["Worker"], ["", "number"]];
const DOING = { rebuild: "Making new rows beside those in use", swap: "Putting the new rows in place", discard: "Dropping the new rows", check: "Comparing", verify: "Checking the store" };

export async function screen(place) {
  if (place.name) return one(place);
  const made = new Projections();
  await made.load();
  await made.begin();
  return { element: made.element, title: "Projections", news: merged(1000, () => made.load()),
    job: (job) => made.take(job) };
}

/** One projection: its line, what can be done with it, and its rows. */
async function one(place) {
  const { under = "" } = place.query;
  const path = `/projections/${encodeURIComponent(place.name)}`;
  const list = new Listing({ path, question: "projection", rows: "rows", wish: { under }, given: { name: place.name }, fields: [["under", "Keys that begin with"]],
    heads: [["Key"], ["Row"]], row: rowOf, nouns: ["row", "rows"], empty: "It has no rows yet." });
  await list.load(null);
  const made = new Projections(place.name);
  await made.load();
  await made.begin();
  const element = h("div", { class: "sheet" }, h("header", {}, h("h1", {}, place.name), made.said, h("a", { href: withQuery("/projections") }, "all projections")),
    h("div", { class: "scroll" }, made.table), made.readOnly(),
    h("section", { "aria-label": "Its rows" }, h("header", { class: "headline below" }, h("h2", {}, "Its rows"), list.said), list.fault, list.filters, list.table, list.foot));
  return { element, title: place.name, news: merged(1000, () => Promise.all([made.load(), list.refresh()])), job: (job) => made.take(job) };
}

/** A row by its key, and its other fields that are not empty; a long text is cut, which its end says. */
function rowOf({ key, ...fields }) {
  const there = Object.entries(fields).filter(([, value]) => value !== "" && value !== null && value !== "{}" && value !== "[]");
  const cut = (all) => all.length > VALUE_MAX ? `${all.slice(0, VALUE_MAX)}… ${number(all.length - VALUE_MAX)} more characters` : all;
  return h("tr", {}, h("td", { class: "name short" }, key), h("td", { class: "said" }, there.map(([name, value]) => [h("span", { class: "field" }, h("span", { class: "dim" }, name), " ", cut(textOf(value))), " "])));
}

class Projections {
  /** With a name only that one. */
  constructor(only = null) {
    this.only = only;
    this.rows = new Map();
    this.mayWrite = Boolean(about().token);
    this.said = h("span", { class: "dim" });
    this.table = h("table", { class: "middle" }, tableHead(HEADS.map(([name, sort]) => [name || h("span", { class: "unseen" }, "Commands"), sort])));
    this.store = new Work(STORE, this);
    this.verify = h("button", { type: "button", onclick: () => this.store.start("verify") }, "Check the whole store");
    this.element = h("div", { class: "sheet" }, h("header", {}, h("h1", {}, "Projections"), this.said),
      h("p", { class: "dim" }, "They are folded from the log when they are asked, or all the time by ", h("code", {}, "refold run"), ". None of them is truth: each can be made anew.",
        " Each has a page with its rows."), this.readOnly(),
      h("div", { class: "scroll" }, this.table),
      h("section", { "aria-label": "The whole store" }, h("p", { class: "buttons" }, this.verify), this.store.element));
  }

  readOnly() {
    return this.mayWrite ? null : h("p", { class: "dim" }, withCommands("This page is read-only: rebuild with `refold rebuild NAME`, or start the page with --write."));
  }

  async load() {
    const found = await ask("projections");
    this.said.textContent = `${counted(found.events, "event")} in the log`;
    const now = performance.now();
    for (const one of found.projections) {
      if (this.only && one.name !== this.only) continue;
      if (!this.rows.has(one.name)) {
        const row = new Row(one.name, this);
        this.rows.set(one.name, row);
        this.table.append(row.element);
      }
      this.rows.get(one.name).show(one, found, now);
    }
  }

  /** Take all jobs there are. */
  async begin() {
    for (const job of await ask("jobs")) this.take(job);
  }

  /** Take how far a job is. */
  take(job) {
    if (job.name === STORE) this.store.take(job);
    else this.rows.get(job.name)?.work.take(job);
  }
}

/** A projection: a line of numbers, its faults, and the work on it. Elements stay, so that the focus does. */
class Row {
  constructor(name, list) {
    this.work = new Work(name, list);
    this.cells = HEADS.map(([, sort], at) => h("td", { class: at === 0 ? "name" : sort }));
    this.notes = h("td", { colspan: HEADS.length });
    this.notesRow = h("tr", { hidden: true }, this.notes);
    const mine = h("td", { colspan: HEADS.length }, this.work.element);
    this.workRow = this.work.row = h("tr", { hidden: true }, mine);
    const act = (name, kind) => h("button", { type: "button", onclick: () => this.work.start(kind), "aria-label": `${name} ${this.work.name}` }, name);
    this.buttons = [act("Compare", "check"), list.mayWrite ? act("Rebuild", "rebuild") : null];
    fill(this.cells.at(-1), h("span", { class: "buttons tight" }, this.buttons));
    this.element = h("tbody", {}, h("tr", {}, this.cells), this.notesRow, this.workRow);
  }

  show(one, { events, head }, now) {
    const seen = events - one.behind;
    const rate = this.seen !== undefined && seen > this.seen ? (seen - this.seen) / (now - this.at) * 1000 : 0;
    Object.assign(this, { seen, at: now });
    const position = one.position.length > 16 ? `${one.position.slice(0, 15)}…` : one.position;
    // One that nobody asked for yet is not late.
    const isNew = !seen && events > 0;
    const name = h("a", { href: withQuery(`/projections/${encodeURIComponent(one.name)}`) }, one.name);
    const values = [name, one.version, number(one.rows), isNew ? "not asked yet" : position, isNew ? "" : number(one.behind), rate ? number(Math.round(rate)) : "-", one.worker ?? "-"];
    values.forEach((value, at) => refill(this.cells[at], value.tagName ? value : String(value)));
    this.cells[3].title = `${one.position} of ${head}`;
    const notes = [];
    if (one.stopped_at) notes.push(["bad", "stopped", "at ", eventLink(one.stopped_at), `: ${one.error ?? ""}`]);
    else if (one.error) notes.push(["bad", "damaged", one.error]);
    for (const aside of one.set_aside) notes.push(["warn", "set aside", eventLink(aside.event), `: ${aside.error}`]);
    this.notesRow.hidden = !notes.length;
    refill(this.notes, notes.map(([sort, tag, ...text]) => h("div", {}, h("span", { class: `tag ${sort}` }, tag), " ", text)));
    this.work.left(one.rebuilt);
  }
}

/** Work on a projection, or on the whole store: its progress, its result, and what a person decides about it. */
class Work {
  constructor(name, list) {
    Object.assign(this, { name, list, job: null, rebuilt: null, last: null });
    this.bar = h("progress", { max: 1, "aria-label": `Progress of ${name === STORE ? "the check" : name}` });
    this.said = h("span");
    this.cancel = h("button", { type: "button", onclick: () => this.start("cancel") }, "Cancel");
    this.going = h("div", { class: "going", hidden: true }, this.bar, this.said, this.cancel);
    this.result = h("div");
    this.fault = h("p", { role: "alert", hidden: true });
    this.element = h("div", {}, this.going, this.result, this.fault);
  }

  /** Ask for a job, or for its end, behind what was asked for before: two buttons that are pressed at once come in turn. */
  start(kind) {
    const before = this.last;
    this.last = (async () => {
      await before;
      if (kind === "cancel" || this.job?.state !== "running") await this.ask(kind);
    })();
  }

  async ask(kind) {
    this.fault.hidden = true;
    try {
      this.take(await change(kind, { name: this.name }));
    } catch (error) {
      fill(this.fault, error.message);
      this.fault.hidden = false;
      this.reveal();
    }
  }

  /** Take how many events are in rows that nobody decided about; null if there are none. */
  left(rebuilt) {
    this.rebuilt = rebuilt;
    if (!this.job || ["stopped", "failed"].includes(this.job.state) || ["check", "verify", "discard"].includes(this.job.kind)) this.showResult();
    this.reveal();
  }

  take(job) {
    // The answer to a request may be older than the news that came meanwhile.
    if (this.job?.id === job.id && this.job.number > job.number) return;
    const isNews = this.job?.id === job.id && this.job.state !== job.state;
    this.job = job;
    const isRunning = job.state === "running";
    this.going.hidden = !isRunning;
    if (isRunning) {
      if (job.total) this.bar.value = job.done / job.total;
      else this.bar.removeAttribute("value");
      this.said.textContent = job.is_cancelled ? "Stopping…" : `${DOING[job.kind]}: ${number(job.done)} of ${number(job.total)} events`
        + (job.rate ? `, ${number(Math.round(job.rate))} a second, ${span((job.seconds_left ?? 0) * 1000)} left` : "");
      fill(this.result);
    } else {
      if (job.state === "done" && ["swap", "discard"].includes(job.kind)) this.rebuilt = null;
      this.showResult();
      if (isNews) say(this.result.textContent);
      this.list.load().catch(() => {});
    }
    this.reveal();
  }

  reveal() {
    if (this.row) this.row.hidden = this.going.hidden && this.fault.hidden && !this.result.childNodes.length;
  }

  showResult() {
    const { job } = this;
    const decide = (name, kind, sort) => h("button", { type: "button", class: sort, onclick: () => this.start(kind) }, name);
    const parts = [];
    if (job?.state === "failed") parts.push(h("p", {}, h("span", { class: "tag bad" }, "failed"), " ", job.error.message, " ", job.error.event ? eventLink(job.error.event) : null));
    if (job?.state === "stopped") parts.push(h("p", {}, h("span", { class: "tag warn" }, "stopped"), job.kind === "verify" ? " Not everything was looked at." : " Nothing in use has changed."));
    if (job?.kind === "verify" && job.report) parts.push(verified(job.report));
    else if (job?.state === "done" && job.kind !== "discard") parts.push(...reported(job));
    const isBuilt = job?.kind === "rebuild" && job.state === "done";
    if (isBuilt && this.list.mayWrite) parts.push(h("p", { class: "buttons tight" }, decide("Swap", "swap", "main"), decide("Discard", "discard")));
    if (!isBuilt && this.rebuilt && job?.state !== "running") {
      parts.push(h("p", {}, h("span", { class: "tag warn" }, "note"), ` A rebuild was left after ${counted(this.rebuilt, "event")}; the rows in use are the old ones.`),
        this.list.mayWrite ? h("p", { class: "buttons tight" }, decide("Continue", "rebuild"), decide("Discard", "discard")) : null);
    }
    refill(this.result, parts);
  }
}

/** Return the result of a job: the number of rows, and those that differ from the rows in use, with both values. */
function reported({ kind, report }) {
  const all = `${counted(report.rows, "row")} of ${counted(report.events, "event")} in ${span(report.seconds * 1000)}`;
  if (kind === "swap") return [h("p", {}, h("span", { class: "tag good" }, "in use"), ` ${counted(report.rows, "new row")} ${report.rows === 1 ? "is" : "are"} in use.`)];
  if (report.fault) return [h("p", {}, h("span", { class: "tag bad" }, "not compared"), ` ${all}. The rows in use cannot be compared: ${report.fault}`)];
  if (!report.differing) return [h("p", {}, h("span", { class: "tag good" }, "identical"), ` ${all}: all as those in use.`)];
  const shown = report.differences.length;
  return [h("p", {}, h("span", { class: "tag bad" }, "different"), ` ${all}. `, shown < report.differing ? `The first ${number(shown)} of ${number(report.differing)} keys that differ:` : `${number(report.differing)} ${report.differing === 1 ? "key differs" : "keys differ"}:`),
    h("table", { class: "differing" }, tableHead(["Key", "In use", "New"]),
      h("tbody", {}, report.differences.map((one) => h("tr", {}, h("th", { scope: "row", class: "name" }, one.key), ...sides(one.live, one.rebuilt)))))];
}

/** Both values of a row; of two that are there, the fields that differ. */
function sides(live, rebuilt) {
  if (live === null || rebuilt === null) return [live, rebuilt].map((row) => h("td", {}, row === null ? h("em", {}, "missing") : h("code", {}, JSON.stringify(row))));
  const names = Object.keys(rebuilt).filter((name) => JSON.stringify(live[name]) !== JSON.stringify(rebuilt[name]));
  return [[live, "del"], [rebuilt, "ins"]].map(([row, tag]) => h("td", {}, names.map((name) => h("div", {}, `${name}: `, h(tag, {}, JSON.stringify(row[name]) ?? "nothing")))));
}

/** The result of the check: that every digest fits, or each problem with its place. */
function verified(report) {
  const counts = `${counted(report.events, "event")} of ${counted(report.streams, "context")}, ${counted(report.projections, "projection")}`;
  if (report.is_whole) return h("p", {}, h("span", { class: "tag good" }, "whole"), ` ${counts}: every event has its place and fits its digest, and all rows are as the events give them.`);
  const place = (where) => /^[a-z]+:.*@\d+$/s.test(where) ? eventLink(where) : where;
  const { length } = report.problems;
  return h("div", {}, h("p", {}, length ? h("span", { class: "tag bad" }, "damaged") : null, ` ${counts}: `,
    length < report.problem_count ? `the first ${number(length)} of ${number(report.problem_count)} problems` : counted(length, "problem")),
  h("ul", {}, report.problems.map((one) => h("li", {}, h("strong", {}, one.kind), " ", place(one.where),
    withCommands(`: ${one.reason}${one.repairable ? " (`refold verify --repair` makes it anew)" : ""}`)))));
}
