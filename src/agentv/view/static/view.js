// Keys, lists that are replaced without loading the whole page, and runs that are going on.
// Every page works without this script. The server decides what exists: a key presses the control that names it in
// `data-key`, so each key has a button or a link.

const POLL_MS = 2000;
const SEQUENCE_MS = 1500; // between `g` and the key after it
const ROWS = ".list tbody tr, .grid tbody, .compared, [data-row]";
const CONTROLS = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']";
const GROUPS = "tr, section, thead, nav, form, ul, details, main";
const FIELDS = "textarea, select, [contenteditable], input:not([type=checkbox], [type=radio], [type=button], [type=submit])";

const main = document.getElementById("content");
const announced = document.getElementById("announced");
const live = document.getElementById("live");

// What browsers refuse to store, for example in a private window, is forgotten.
const remember = (store, key, value) => { try { globalThis[store].setItem(key, value); } catch { /* forgotten */ } };
const recall = (store, key) => { try { return globalThis[store].getItem(key); } catch { return null; } };

// --- Where the reader is: focus, opened details, typed texts and scrolled tables, found again in a new main ---

const words = (node) => (node?.textContent ?? "").replace(/[↑↓]/g, "").trim();
const rowAddress = (row) => row.querySelector("a[href]")?.getAttribute("href");

function groupName(control) {
  const group = (control.closest("summary")?.parentElement.parentElement ?? control).closest(GROUPS);
  if (group?.matches(ROWS)) return `row ${rowAddress(group)}`;
  const heading = group?.querySelector(":scope > :is(h2, h3, summary)");
  return [group?.localName, group?.className, group?.ariaLabel || words(heading)].join(" ");
}

/** Return what tells a control apart from the others of its page, and is the same on the next page of a list. */
function nameOf(control) {
  if (control.id) return `#${control.id}`;
  const text = control.rel || control.ariaLabel || control.name || words(control);
  const value = control.type === "radio" ? control.value : "";
  return [groupName(control), control.localName, control.dataset.key, text, value].join(" ");
}

function place() {
  const focused = main.contains(document.activeElement) && document.activeElement !== main ? document.activeElement : null;
  const group = focused && groupName(focused);
  const siblings = focused ? controls().filter((each) => groupName(each) === group) : [];
  return {
    focused: focused && nameOf(focused),
    group,
    index: siblings.indexOf(focused),
    isInRow: Boolean(focused?.closest(ROWS)),
    selection: focused?.matches("textarea, [type=search], [type=text]") && [focused.selectionStart, focused.selectionEnd],
    details: new Map([...main.querySelectorAll("details")].map((each) => [detailsName(each), each.open])),
    typed: new Map(fields().filter(isChanged).map((each) => [nameOf(each), [each.value, each.checked]])),
    scrolled: [...main.querySelectorAll(".scroll")].map((each) => each.scrollLeft),
  };
}

const controls = () => [...main.querySelectorAll(CONTROLS)];
const fields = () => [...main.querySelectorAll("input:not([type=hidden]), textarea")];
const isChanged = (field) => field.value !== field.defaultValue || field.checked !== field.defaultChecked;
const detailsName = (details) => details.id || `${groupName(details.parentElement)} ${words(details.querySelector("summary"))}`;

function restore(before) {
  for (const each of main.querySelectorAll("details")) each.open = before.details.get(detailsName(each)) ?? each.open;
  for (const each of fields()) {
    const typed = before.typed.get(nameOf(each));
    if (typed) [each.value, each.checked] = typed;
  }
  main.querySelectorAll(".scroll").forEach((each, index) => { each.scrollLeft = before.scrolled[index] ?? 0; });
  if (!before.focused) return;
  const all = controls();
  const again = all.find((each) => nameOf(each) === before.focused) ?? neighbour(all, before) ?? main;
  focus(again);
  if (before.selection && again.setSelectionRange) again.setSelectionRange(...before.selection);
}

/** Return what stands where a control stood that is gone: a removed filter, a row of the page before, the last "next". */
function neighbour(all, before) {
  if (before.isInRow) return rows()[0]?.querySelector(CONTROLS);
  const group = all.filter((each) => groupName(each) === before.group);
  return group[Math.min(before.index, group.length - 1)];
}

function focus(control) {
  control.focus({ preventScroll: true });
  const row = control.closest(ROWS);
  if (row) setCurrent(row);
}

// --- Lists: links and forms that lead to another part of the same list replace the main part of the page ---

let shown = main.outerHTML;
let address = location.pathname + location.search;
let tag = null; // the ETag of what is shown, once known
let request = null;

async function load(url, options = {}) {
  request?.abort();
  const own = (request = new AbortController());
  const response = await fetch(url, { signal: own.signal, ...options });
  const text = await response.text();
  const page = new DOMParser().parseFromString(text, "text/html");
  return { response, title: page.title, next: page.getElementById("content"), isStale: () => own !== request };
}

const NOTHING = { focused: null, details: new Map(), typed: new Map(), scrolled: [] };

/** Return the item of a review that a page asks about. */
const itemOf = (page) => page.querySelector("input[name=item]")?.value;

/** Show a loaded page; `isOther` if it is about another thing, so that nothing typed or opened belongs to it. */
function show({ response, title, next }, { isOther = false } = {}) {
  tag = response.headers.get("ETag");
  if (next.outerHTML === shown) return false;
  shown = next.outerHTML;
  const before = isOther ? NOTHING : place();
  for (const name of new Set([...main.getAttributeNames(), ...next.getAttributeNames()])) {
    if (next.hasAttribute(name)) main.setAttribute(name, next.getAttribute(name));
    else main.removeAttribute(name);
  }
  main.replaceChildren(...next.childNodes);
  document.title = title;
  labelCells();
  restore(before);
  return true;
}

/** Name the column of each cell, for narrow screens, where rows are cards. */
function labelCells() {
  for (const table of main.querySelectorAll(".list table")) {
    const heads = [...table.querySelectorAll("thead th")].map(words);
    for (const row of table.tBodies[0]?.rows ?? []) {
      [...row.cells].forEach((cell, at) => { cell.dataset.label = heads[at] ?? ""; });
    }
  }
}

async function swap(url, { isPushed = true, toTop = false } = {}) {
  main.ariaBusy = "true";
  let loaded;
  try {
    loaded = await load(url);
    if (loaded.isStale()) return;
  } catch (error) {
    if (error.name === "AbortError") return;
  }
  main.ariaBusy = null;
  if (!loaded?.response.ok || loaded.response.redirected || !loaded.next) return location.assign(url);
  if (isPushed) history.pushState(null, "", url);
  address = location.pathname + location.search;
  remember("sessionStorage", location.pathname, location.search);
  show(loaded, { isOther: itemOf(loaded.next) !== itemOf(main) });
  if (toTop) main.scrollIntoView();
  announce(words(document.getElementById("count")) || words(main.querySelector(".notice, h1")));
  schedule();
}

// A text that is announced twice in a row would be silent without the change between.
function announce(text) {
  announced.textContent = "";
  requestAnimationFrame(() => { announced.textContent = text; });
}

const isSameList = (url) =>
  url.origin === location.origin && url.pathname === location.pathname && (url.search !== location.search || !url.hash);

main.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  const isPlain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
  if (!link || !isPlain || link.target || link.hasAttribute("download") || event.defaultPrevented) return;
  const url = new URL(link.href);
  if (!isSameList(url)) {
    if (link.closest(ROWS)) remember("sessionStorage", `list of ${url.pathname}`, location.pathname + location.search);
    return;
  }
  event.preventDefault();
  swap(url.href, { toTop: /\b(next|prev)\b/.test(link.rel) });
});

main.addEventListener("submit", (event) => {
  const form = event.target;
  const url = new URL(form.action);
  if (event.defaultPrevented) return;
  if (form.method === "post" && url.origin === location.origin && url.pathname === location.pathname) {
    event.preventDefault();
    send(form, event.submitter);
    return;
  }
  if (form.method !== "get") return;
  url.search = new URLSearchParams([...new FormData(form, event.submitter)].filter(([, value]) => String(value).trim()));
  if (url.origin !== location.origin || url.pathname !== location.pathname) return;
  event.preventDefault();
  for (const each of form.querySelectorAll("input")) each.defaultValue = each.value; // sent, so no longer only typed
  swap(url.href);
});

function warn(form, ...parts) {
  const notice = form.querySelector("[role=alert]") ?? document.createElement("div");
  notice.role = "alert";
  notice.className = "notice";
  notice.replaceChildren(...parts);
  form.prepend(notice);
}

/** Send a form, and show the page that its answer leads to: the next item of a review. What is refused stays typed. */
async function send(form, submitter) {
  if (main.ariaBusy) return;
  main.ariaBusy = "true";
  let loaded = null;
  try {
    loaded = await load(form.action, { method: "POST", body: new URLSearchParams([...new FormData(form, submitter)]) });
  } catch { /* told below */ }
  main.ariaBusy = null;
  if (!loaded?.next) return warn(form, "Not sent: no connection to the viewer. Send it again.");
  if (!loaded.response.ok) return warn(form, ...loaded.next.querySelectorAll(".notice p"));
  history.replaceState(null, "", loaded.response.url);
  address = location.pathname + location.search;
  show(loaded, { isOther: true });
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
  announce(words(main.querySelector("h1")));
  schedule();
}

addEventListener("popstate", () => {
  if (location.pathname + location.search !== address) swap(location.href, { isPushed: false });
});

// --- A run that is going on: asked for every two seconds, replaced when it has changed ---

const going = live?.querySelector("span").textContent; // "running", or "counting" for a page that is being made
let timer = 0;
let isPaused = false;

const isBusyReading = () => !getSelection().isCollapsed && main.contains(getSelection().anchorNode);

function schedule() {
  clearTimeout(timer);
  if (!("live" in main.dataset)) live?.remove();
  else if (!document.hidden && !isPaused) timer = setTimeout(poll, POLL_MS);
}

async function poll() {
  if (main.ariaBusy || isBusyReading()) return schedule();
  try {
    const loaded = await load(location.href, { cache: "no-store", headers: tag ? { "If-None-Match": tag } : {} });
    if (loaded.isStale()) return;
    if (loaded.response.status === 304) setLive(going);
    else if (!loaded.response.ok || !loaded.next) return location.reload();
    else {
      setLive(going);
      const ended = going === "running" ? "The run has ended. " : "";
      if (show(loaded) && !("live" in main.dataset)) announce(`${ended}${words(main.querySelector("h1"))}`);
    }
  } catch (error) {
    if (error.name === "AbortError") return;
    setLive("no connection to agentv view; trying again");
  }
  schedule();
}

function setLive(text) {
  const state = live?.querySelector("span");
  if (state && state.textContent !== text) state.textContent = text;
}

live?.querySelector("button")?.addEventListener("click", (event) => {
  isPaused = !isPaused;
  event.currentTarget.textContent = isPaused ? "Follow" : "Pause";
  if (isPaused) clearTimeout(timer);
  else poll();
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden || isPaused || !("live" in main.dataset)) clearTimeout(timer);
  else poll();
});

// --- Keys ---

const dialog = document.getElementById("keys");
const letters = document.getElementById("letters");
const isList = () => main.dataset.keys !== "review";
const rows = () => [...main.querySelectorAll(ROWS)];
const mainLink = (row) => row?.querySelector("a[data-main]") ?? row?.querySelector("a[href]");
const currentRow = () => document.activeElement.closest(ROWS) ?? main.querySelector(".current");

function setCurrent(row) {
  for (const each of main.querySelectorAll(".current")) each.classList.remove("current");
  row.classList.add("current");
}

function move(step) {
  const all = rows();
  const at = all.indexOf(currentRow());
  const row = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + step, 0), all.length - 1)];
  if (!row) return;
  const target = mainLink(row) ?? row.querySelector(CONTROLS) ?? row;
  if (target === row) row.tabIndex = -1;
  focus(target);
  row.scrollIntoView({ block: "nearest" });
}

/** Go to the list that led here, else to the page above, with its filter and the focus on the link to this page. */
function goUp() {
  const above = main.querySelector(".trail li:last-child a");
  if (!above) return;
  const url = new URL(recall("sessionStorage", `list of ${location.pathname}`) ?? above.href, location.href);
  url.search ||= recall("sessionStorage", url.pathname) ?? "";
  remember("sessionStorage", "came from", location.pathname);
  location.assign(url.href);
}

function open(control) {
  control.closest("details")?.setAttribute("open", "");
  control.focus();
  control.select?.();
}

const openFilters = () => {
  const filters = document.getElementById("filters");
  filters.open = !filters.open;
  filters.querySelector(filters.open ? "a" : "summary")?.focus();
};
const EVERYWHERE = {
  "/": ["input[type=search]", open],
  "?": ["#show-keys", showKeys],
};
const IN_LISTS = {
  j: [ROWS, () => move(1)],
  k: [ROWS, () => move(-1)],
  n: ["a[rel~=next]", (link) => link.click()],
  b: ["a[rel~=prev]", (link) => link.click()],
  f: ["#filters", openFilters],
  o: ["thead a, [aria-label=Order] a", open],
  c: [`:is(${ROWS}) input[type=checkbox]`, () => currentRow()?.querySelector("input[type=checkbox]")?.click()],
  d: ["[role=group]:has([href*='diff=']):has([href]:not([href*='diff='])) a:not([aria-current])", (link) => link.click()],
  Enter: [`:is(${ROWS}) a[href]`, () => mainLink(currentRow())?.click()],
};

/** Return what a key does on this page, or undefined. */
function actionOf(key) {
  const selector = `[data-key="${CSS.escape(key)}"]`;
  const named = currentRow()?.querySelector(selector) ?? main.querySelector(selector) ?? document.querySelector(selector);
  if (named?.checkVisibility() && !named.disabled) return () => (named.matches(FIELDS) ? open(named) : named.click());
  const [wanted, act] = EVERYWHERE[key] ?? (isList() ? IN_LISTS[key] : undefined) ?? [];
  const control = wanted && document.querySelector(wanted);
  return control?.checkVisibility() ? () => act(control) : undefined;
}

function showKeys() {
  for (const each of dialog.querySelectorAll("[data-for]")) {
    each.hidden = each.dataset.for === "Escape" ? !main.querySelector(".trail a") : !actionOf(each.dataset.for);
  }
  for (const each of dialog.querySelectorAll("section")) each.hidden = !each.querySelector("[data-for]:not([hidden])");
  dialog.showModal();
}

let sequence = "";
let sequenceEnd = 0;

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented || dialog.open) return;
  const focused = document.activeElement;
  if (event.key === "Escape") {
    if (focused.matches(FIELDS)) return focused.blur();
    return focused.closest("#filters[open]") ? openFilters() : goUp();
  }
  const isPressing = event.key === "Enter" && focused.matches("a, button, summary, input");
  if (focused.matches(FIELDS) || isPressing || (event.key.length === 1 && !letters.checked)) return;
  const isSecond = sequence && event.timeStamp < sequenceEnd;
  const key = isSecond ? `${sequence} ${event.key}` : event.key;
  sequence = "";
  if (!isSecond && document.querySelector(`[data-key^="${CSS.escape(key)} "]`)) {
    [sequence, sequenceEnd] = [key, event.timeStamp + SEQUENCE_MS];
  }
  const isMoving = key === "j" || key === "k";
  const action = event.repeat && !isMoving ? undefined : actionOf(key);
  if (!action) return;
  event.preventDefault();
  action();
});

main.addEventListener("focusin", (event) => {
  const row = event.target.closest(ROWS);
  if (row) setCurrent(row);
});
letters.checked = recall("localStorage", "letters") !== "off";
letters.addEventListener("change", () => remember("localStorage", "letters", letters.checked ? "on" : "off"));
document.getElementById("show-keys").addEventListener("click", showKeys);

// --- Start ---

for (const each of document.querySelectorAll("header [hidden]")) each.hidden = false;
labelCells();
remember("sessionStorage", location.pathname, location.search);
const cameFrom = recall("sessionStorage", "came from");
remember("sessionStorage", "came from", "");
const link = controls().find((each) => cameFrom && each.localName === "a" && new URL(each.href).pathname === cameFrom);
if (link?.closest(ROWS)) {
  focus(link);
  link.closest(ROWS).scrollIntoView({ block: "center" });
}
schedule();
