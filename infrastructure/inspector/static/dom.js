/** Elements, and the formats of numbers and times. Text is always set as text: nothing here makes HTML of a string. */

const SVG = "http://www.w3.org/2000/svg";

// Characters that steer a terminal or turn the order of others around are shown by their numbers.
const STEERING = /[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g;
export const harmless = (text) => text.replace(STEERING, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** Return children as a flat list, without those that are none, each text made harmless. */
const flat = (children) => children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false)
  .map((one) => typeof one === "string" ? harmless(one) : one);

// A letter of a script that is written from right to left.
const FROM_RIGHT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** Return a name or an address, for a text, in parts that are each read in their own direction: else `@3` stood before a Hebrew name. */
export const named = (text) => FROM_RIGHT.test(text) ? text.split(/([/:@]+)/).map((part, at) => at % 2 ? part : h("bdi", {}, part)) : text;

/** Return a text with the commands that it names, between back quotes, as code. */
export const withCommands = (text) => text.split(/`(refold [^`]*)`/).map((part, at) => at % 2 ? h("code", {}, part) : part);

// The way out for a change that this page cannot make.
export const READ_ONLY = "This page is read-only: start it with `refold ui --write`.";

let failed = () => {};
/** Have something called with each error that ends what a person had begun, as by a button. */
export const onFailure = (call) => { failed = call; };

/** Return an element; `props` are attributes, `on...` listeners, `class`, `data` and `style` (an object of properties). */
export function h(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    // An attribute for a state is also set if the state is false.
    const isState = /^aria-(selected|pressed)$/.test(name);
    if (value === undefined || value === null || (value === false && !isState)) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), (event) => value(event)?.catch?.(failed));
    else if (name === "data") Object.assign(made.dataset, value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) made.style.setProperty(key, one);
    else if (name === "value" || name === "checked") made[name] = value;
    else made.setAttribute(name, value === true && !isState ? "" : String(value));
  }
  made.append(...flat(children));
  return made;
}

/** Return the head of a table; each column is a name, or a list of a name and a class. */
export const tableHead = (columns) => h("thead", {}, h("tr", {}, columns.map((column) => {
  const [name, sort] = [column].flat();
  return h("th", { scope: "col", class: sort }, name);
})));

/** Return a table that can be scrolled sideways where it is wider than the page. */
export const scrolled = (...parts) => h("div", { class: "scroll" }, h("table", {}, parts));

/** Return a value as a text: one that is no text as JSON, one that is missing as nothing. */
export const textOf = (value) => value === null || value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);

/** Replace what an element holds. */
export function fill(element, ...children) {
  element.replaceChildren(...flat(children));
  return element;
}

/**
 * As `fill`, but each child that looks the same stays, with the focus, what is selected and what is being pressed: a click
 * on what was replaced meanwhile is none. The focus goes on to the link of the same address.
 */
export function refill(element, ...children) {
  const focused = element.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  const made = flat(children).map((one) => typeof one === "object" ? one : document.createTextNode(one));
  const wanted = new Set(made);
  made.forEach((one, at) => {
    const there = element.childNodes[at];
    if (there === one) return;
    // A child that comes later in the list is moved, not replaced.
    if (!there || wanted.has(there)) element.insertBefore(one, there ?? null);
    else if (looksOf(there) !== looksOf(one)) there.replaceWith(one);
  });
  while (element.childNodes.length > made.length) element.lastChild.remove();
  if (focused && !element.contains(document.activeElement)) element.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  return element;
}

export const looksOf = (node) => node.outerHTML ?? node.data;

const ICONS = {
  first: "M3 3v10M13 3L6 8l7 5z", last: "M13 3v10M3 3l7 5-7 5z", back: "M10 3L5 8l5 5z", next: "M6 3l5 5-5 5z",
  play: "M5 3l8 5-8 5z", pause: "M5 3v10M11 3v10", close: "M4 4l8 8M12 4l-8 8", link: "M6 10l4-4M5 7L3 9a3 3 0 004 4l2-2M11 9l2-2a3 3 0 00-4-4L7 5",
  fork: "M4 3v10M4 9c0-3 8-1 8-6M12 3v1", sun: "M8 5a3 3 0 100 6 3 3 0 000-6zM8 1v2M8 13v2M1 8h2M13 8h2",
};

/** Return a drawn sign; words beside it, or a label, say what it means. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  const path = document.createElementNS(SVG, "path");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", "icon");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

const NUMBER = new Intl.NumberFormat("en");
export const number = (value) => NUMBER.format(value ?? 0);

/** Return a number with its noun. */
export const counted = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;

/** Whether a key is pressed with others, which browsers and screen readers have a meaning for. */
export const hasModifier = (event) => event.ctrlKey || event.metaKey || event.altKey || event.shiftKey;

/** Return a number in few characters: 61,280 becomes 61.3k. */
export function brief(value) {
  if (Math.abs(value) < 10_000) return number(value);
  return value < 999_950 ? `${(value / 1e3).toFixed(1)}k` : `${(value / 1e6).toFixed(1)}M`;
}

/** Return a time of day with its date, in UTC; `at` is a text or milliseconds since 1970. */
export function time(at) {
  return new Date(at).toISOString().replace("T", " ").slice(0, 19) + "Z";
}

/** Return a duration, or a time that is so long ago, in its largest unit. */
export function span(milliseconds) {
  const seconds = Math.abs(milliseconds) / 1000;
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return seconds < 10 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds)} s`;
}

function since(at) {
  const passed = Date.now() - new Date(at).getTime();
  return passed < 5000 ? "just now" : `${span(passed)} ago`;
}

/** Return an element that says how long ago a time was, as long as it is shown. */
export const ago = (at) => h("time", { datetime: at }, since(at));
setInterval(() => {
  for (const one of document.querySelectorAll("time")) {
    const words = since(one.dateTime);
    // Written only when it changes: a new text takes a reader's selection away.
    if (one.textContent !== words) one.textContent = words;
  }
}, 10_000);

/** Return a word for the command line of a shell, whatever is in it. */
export const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** The settings that the browser keeps, such as the theme; if it keeps nothing, they end with the page. */
export const kept = (() => {
  try {
    return localStorage;
  } catch {
    const own = new Map();
    return { getItem: (name) => own.get(name) ?? null, setItem: (name, value) => own.set(name, String(value)) };
  }
})();

/** Say something to a screen reader. */
export function say(text) {
  document.getElementById("said").textContent = text;
}

/** Return a copy of a function that runs only once calls have paused. */
export function debounced(milliseconds, run) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...given), milliseconds);
  };
}

// A slow function, such as the usage of all contexts of a large store, rests RESTS times as long as it ran before it runs
// again; at most RESTS_MAX times as long as other functions rest.
const RESTS = 4;
const RESTS_MAX = 10;

/**
 * Return a copy of a function that runs soon after a call, and not again before it is done: many calls are one, and
 * calls without a pause do not put it off.
 */
export function merged(milliseconds, run) {
  let isAsked = false;
  let isRunning = false;
  let pause = milliseconds;
  const go = async () => {
    isRunning = true;
    while (isAsked) {
      await new Promise((done) => { setTimeout(done, pause); });
      isAsked = false;
      const began = performance.now();
      await Promise.resolve(run()).catch(() => {});
      pause = Math.max(milliseconds, Math.min(RESTS * (performance.now() - began), RESTS_MAX * milliseconds));
    }
    isRunning = false;
  };
  return () => {
    isAsked = true;
    if (!isRunning) go();
  };
}

/** The role of an item of a chat, from the columns of its index. */
export function roleOf(type, role) {
  if (type === "message") return role || "message";
  return { function_call: "call", function_call_output: "output", agent_handoff: "handoff",
    agent_config_update: "config" }[type] ?? type;
}

/** The pixels of a canvas for its size on the screen, cleared; returns the context in CSS pixels. */
export function cleared(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const drawing = canvas.getContext("2d");
  drawing.setTransform(ratio, 0, 0, ratio, 0, 0);
  drawing.clearRect(0, 0, width, height);
  return { drawing, width, height };
}

/** The value of a colour of page.css, as the theme has it now. */
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
