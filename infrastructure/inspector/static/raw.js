/** The content of a context at a version as data: the answer that scripts get, too. */
import { ask } from "./api.js";
import { debounced, fill, h, number } from "./dom.js";
import { copyText } from "./keys.js";

const LINES_MAX = 2_000;

export function panel(context, tab, view) {
  const said = h("span", { class: "dim" });
  const body = h("pre", { tabindex: 0, class: "raw" });
  const twin = h("a", { target: "_blank", rel: "noopener" }, "all of it");
  let text = "";
  fill(view, h("div", { class: "log-bar" }, h("button", { type: "button", onclick: () => copyText(text, "the JSON is copied") }, "Copy"), twin, said), body);
  // A reader who goes along the versions asks for the one where they stay.
  const load = debounced(120, async (version) => {
    try {
      const found = await ask(context.kind === "run" ? "graph" : "view", { context: context.stream, version });
      if (version !== context.version) return;
      text = JSON.stringify(found, null, 2);
      const lines = text.split("\n");
      fill(body, lines.slice(0, LINES_MAX).join("\n"));
      twin.href = `${location.pathname.replace(/@[^/]*$/, "")}@${version}.json`;
      said.textContent = lines.length > LINES_MAX ? `the first ${number(LINES_MAX)} of ${number(lines.length)} lines` : `${number(lines.length)} lines`;
    } catch (error) { fill(body, error.message); }
  });
  return { show: load };
}
