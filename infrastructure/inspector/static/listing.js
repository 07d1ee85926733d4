/** A table whose rows come a page at a time, with filters that are in the address. */
import { note, withQuery } from "./address.js";
import { ask } from "./api.js";
import { debounced, fill, h, looksOf, number, refill, scrolled, tableHead, withCommands } from "./dom.js";

/**
 * Make a list of the answers to a question. `wish` has its filters by name, `fields` those that are shown, each
 * `[name, label, choices]`; `heads` has `[name, class]` of each column, `row` makes a line of one of `rows`. `nouns` are
 * what one is called, and what many are. `taken` is called with each page that came.
 */
export class Listing {
  constructor({ path, question, rows, wish, given = {}, fields, heads, row, nouns, empty, taken = () => {} }) {
    Object.assign(this, { path, question, rows, wish, given, row, nouns, empty, taken, cursor: null, count: 0, pages: 0, isGoingOn: false });
    this.body = h("tbody");
    this.said = h("span", { class: "dim" });
    this.none = h("p", { class: "empty" });
    this.fault = h("p", { class: "damage", role: "alert", hidden: true });
    this.more = h("button", { type: "button", onclick: () => this.goOn() }, "Show more");
    const again = debounced(250, () => {
      note(withQuery(path, this.wish));
      this.load(null).catch((error) => this.fail(error));
    });
    const take = (name) => (event) => { this.wish[name] = event.target.value.trim(); again(); };
    const field = ([name, label, choices]) => h("label", {}, label, choices
      ? h("select", { name, onchange: take(name) }, choices.map(([value, shown]) => h("option", { value, selected: value === wish[name] }, shown)))
      : h("input", { name, value: wish[name] ?? "", autocomplete: "off", oninput: take(name) }));
    this.filters = h("div", { class: "filters" }, fields.map(field));
    this.table = scrolled(tableHead(heads), this.body);
    this.foot = [this.none, h("p", { class: "buttons" }, this.more)];
  }

  async load(after) {
    const wanted = Object.fromEntries(Object.entries(this.wish).filter(([, value]) => value));
    const asked = this.asked = { ...this.given, ...wanted };
    const page = await ask(this.question, { ...asked, cursor: after ?? undefined });
    // Meanwhile the reader may have asked for others.
    if (asked !== this.asked) return;
    const rows = page[this.rows].map(this.row);
    if (after) this.body.append(...rows);
    else { refill(this.body, rows.map((row, at) => this.renewed(this.body.children[at], row))); this.count = 0; this.pages = 0; }
    this.pages += 1;
    this.count += page[this.rows].length;
    this.cursor = page.cursor;
    this.more.hidden = !this.cursor;
    this.said.textContent = `${this.cursor ? "the first " : ""}${number(this.count)} ${this.nouns[this.count === 1 ? 0 : 1]}`;
    this.none.hidden = this.count > 0;
    this.table.hidden = !this.none.hidden;
    this.fault.hidden = true;
    fill(this.none, Object.values(this.wish).some(Boolean) ? `No ${this.nouns[0]} fits.` : this.empty);
    this.taken(page);
  }

  async goOn() {
    if (this.isGoingOn) return;
    this.isGoingOn = true;
    await this.load(this.cursor).catch((error) => this.fail(error));
    this.isGoingOn = false;
  }

  /** The row that is there, with what is new in its cells, if it is of the same thing. */
  renewed(row, made) {
    const isSame = row && row.className === made.className && looksOf(row.cells[0]) === looksOf(made.cells[0]);
    return isSame ? refill(row, ...made.cells) : made;
  }

  fail(error) {
    fill(this.fault, withCommands(error.message));
    this.fault.hidden = false;
  }

  /** Ask anew, unless the reader has gone on beyond the first page, or is about to. */
  refresh() {
    return this.pages > 1 || this.isGoingOn ? null : this.load(null);
  }
}
