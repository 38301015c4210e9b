"use strict";
// Search and filter the page, and sort its rows. Uses only texts and attributes, never markup.
const controls = document.getElementById("controls");
const list = document.getElementById("rows");
const rows = Array.from(list.children);
const texts = new Map();
const rowsOf = new Map();
for (const row of rows) rowsOf.set(row.dataset.case, [...(rowsOf.get(row.dataset.case) || []), row]);
// What is about a case above the rows: the list of failed cases, and the answers side by side.
const linked = Array.from(document.querySelectorAll("[data-case]")).filter((part) => part.parentElement !== list);
const sections = new Set(linked.map((part) => part.closest("section")));

function textOf(row) {
  if (!texts.has(row)) texts.set(row, row.textContent.toLowerCase());
  return texts.get(row);
}

function number(row, name) {
  return name in row.dataset ? Number(row.dataset[name]) : null;
}

function compare(name, sign) {
  // Rows without a number come last in both directions.
  return (a, b) => {
    const x = number(a, name), y = number(b, name);
    if (x === null || y === null) return (x === null) - (y === null);
    return sign * (x - y);
  };
}

const orders = {
  case: (a, b) => caseOf(a).localeCompare(caseOf(b), undefined, { numeric: true }),
  score: compare("score", 1),
  took: compare("took", -1),
  cost: compare("cost", -1),
};

function caseOf(row) {
  return row.querySelector(".case").textContent;
}

function filter() {
  const text = controls.elements.text.value.trim().toLowerCase();
  const chosen = ["target", "prompt"].filter((name) => controls.elements[name] && controls.elements[name].value);
  const states = new Set(Array.from(controls.querySelectorAll("[name=state]:checked"), (box) => box.value));
  const contains = (part) => !text || textOf(part).includes(text);
  const fits = (row) => states.has(row.dataset.state)
    && chosen.every((name) => row.dataset[name] === controls.elements[name].value);
  let shown = 0;
  for (const row of rows) {
    row.hidden = !(fits(row) && contains(row));
    shown += !row.hidden;
  }
  for (const part of linked) {
    // A part may be about a case whose rows are left out of the page.
    const about = rowsOf.get(part.dataset.case);
    const fitting = (about || []).filter((row) => fits(row) && part.querySelector(`.badge.${row.dataset.state}`));
    const isFound = contains(part) || fitting.some(contains);
    part.hidden = !(isFound && (!about || fitting.length));
  }
  for (const section of sections) section.hidden = linked.every((part) => part.closest("section") !== section || part.hidden);
  controls.elements.shown.value = `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")}`;
}

function order() {
  const chosen = orders[controls.elements.order.value];
  list.append(...(chosen ? [...rows].sort(chosen) : rows));
}

let waiting;
controls.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(filter, 120);
});
controls.elements.order.addEventListener("change", order);
controls.addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("keydown", (event) => {
  const writing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
  if (event.key === "/" && !writing) {
    event.preventDefault();
    controls.elements.text.focus();
  }
});

function openNamed() {
  const row = location.hash && document.getElementById(location.hash.slice(1));
  if (row instanceof HTMLDetailsElement) row.open = true;
}

addEventListener("hashchange", openNamed);
openNamed();
controls.hidden = rows.length === 0;
filter();
