/** A merge of two chats before it is made: the base, what each side did since, what comes in, and the conflicts. */
import { contextAddress, go, short, versionLink } from "./address.js";
import { about, ask, change } from "./api.js";
import { counted, fill, h, named, number, quoted, READ_ONLY, scrolled, tableHead, withCommands } from "./dom.js";
import { showDialog } from "./keys.js";

const RULES = [["ours", "ours stays"], ["theirs", "theirs is taken"], ["newest", "the newest is taken"]];
const KINDS = { config: "the instructions or tools", summary: "the summary of the same items" };

/** Show what a merge of a version of a chat into another chat would do, and make it if the person wants it. */
export function mergeDialog(from, into) {
  const source = `${from.stream}@${from.version}`;
  const fault = h("p", { role: "alert" });
  const shown = h("div", { class: "merge", role: "status" });
  const command = h("code", {});
  const rule = h("select", { "aria-label": "Where both changed the same", onchange: () => load() }, RULES.map(([value, name]) => h("option", { value }, name)));
  const instructions = h("input", { type: "checkbox", onchange: () => load() });
  const mayWrite = Boolean(about().token);
  const options = () => ({ on_conflict: rule.value, instructions: instructions.checked ? 1 : undefined });
  let version = null;
  let asked = null;
  const run = h("button", { type: "button", class: "main", disabled: true, onclick: async () => {
    try {
      const done = await change("merge", { source, target: into.stream, version, ...options() });
      dialog.close();
      go(contextAddress(done.context));
    } catch (error) { fill(fault, error.message); }
  } }, "Merge");
  async function load() {
    fill(command, `refold merge ${quoted(short(source))} ${quoted(short(into.stream))}`, rule.value === "ours" ? "" : ` --on-conflict ${rule.value}`, instructions.checked ? " --instructions" : "");
    run.disabled = true;
    const wanted = asked = options();
    try {
      const found = await ask("preview", { source, target: into.stream, ...wanted });
      // Meanwhile the person may have chosen another rule, which is the one that would be followed.
      if (wanted !== asked) return;
      version = found.ours.version;
      fill(shown, preview(found));
      fill(fault);
      run.disabled = !mayWrite || isNothing(found);
    } catch (error) { fill(fault, error.message); }
  }
  const dialog = showDialog(`Merge ${short(source)} into ${short(into.stream)}`, [
    h("p", { class: "choices" }, h("label", {}, "Where both changed the same: ", rule), h("label", { class: "choice" }, instructions, "instructions and tools, too")),
    shown, h("p", { class: "dim" }, "On the command line: ", command), fault,
    mayWrite ? null : h("p", { class: "dim" }, withCommands(READ_ONLY)),
  ].filter(Boolean), [run]);
  dialog.classList.add("wide");
  load();
}

const isNothing = (found) => !found.taken.count && !found.conflicts.length;

function preview(found) {
  const { base, ours, theirs, result } = found;
  const link = (one) => versionLink(one.context, one.version);
  const side = (name, one) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "name" }, link(one)),
    h("td", { class: "number" }, number(one.items)), h("td", { class: "number" }, number(one.tokens)),
    base ? [since(one.added, "+"), since(one.removed, "−")] : null);
  const numbers = ["Items", "Tokens", ...base ? ["Came since", "Left since"] : []];
  const since = ({ count }, sign) => h("td", { class: "number" }, `${sign}${number(count)}`);
  return [
    scrolled(tableHead(["", "", ...numbers.map((name) => [name, "number"])]), h("tbody", {},
      base ? h("tr", {}, h("th", { scope: "row" }, "Base"), h("td", { class: "name" }, link(base)), [1, 2, 3, 4].map(() => h("td"))) : null,
      side("Ours", ours), side("Theirs", theirs),
      h("tr", {}, h("th", { scope: "row" }, "After"), h("td", {}), h("td", { class: "number" }, number(result.items)), h("td", { class: "number" }, number(result.tokens)), base ? [h("td"), h("td")] : null))),
    isNothing(found) ? h("p", {}, "Ours has all of it already: nothing would change.") : null,
    found.conflicts.map(conflict),
    part("Comes in", found.taken, "added", true), part("Leaves here", found.leaving, "removed", true),
    part("Stays out", found.stays_out, ""), part("Stays here, though it left there", found.kept, ""),
    ours.added ? part("What came here since the base", ours.added, "") : null, ours.removed ? part("What left here since the base", ours.removed, "") : null,
  ];
}

/** Items of one sort, opened if they are what a person must look at; none if there are none. */
function part(title, { count, items }, sort, isOpen = false) {
  if (!count) return null;
  return h("details", { open: isOpen }, h("summary", {}, `${title}: ${counted(count, "item")}`), items.map((item) => line(item, sort)),
    count > items.length ? h("p", { class: "dim" }, `the first ${number(items.length)}`) : null);
}

const line = (item, sort) => h("div", { class: `change ${sort}` }, h("span", { class: "dim" }, h("bdi", {}, item.speaker), " · ", named(short(item.ref)), " "),
  h("bdi", {}, item.body, item.cut ? "…" : ""));

function conflict({ kind, rule, kept, ours, theirs }) {
  const side = (name, { items }) => h("div", { class: "side" }, h("p", {}, h("strong", {}, name), kept === name.toLowerCase() ? [" ", h("span", { class: "tag good" }, "kept")] : null), items.map((item) => line(item, "")));
  return h("section", { class: "change changed" }, h("p", {}, `Both sides changed ${KINDS[kind] ?? kind}; ${rule === "newest" ? "the newest wins" : `${rule} wins`}.`),
    h("div", { class: "sides" }, side("Ours", ours), side("Theirs", theirs)));
}
