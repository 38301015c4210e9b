"use strict";
// Search, filter and sort the rows of the page. Uses only texts and attributes, never markup.
const controls = document.getElementById("controls");
const list = document.getElementById("rows");
const rows = Array.from(list.children);
const texts = new Map();

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
  const target = controls.elements.target ? controls.elements.target.value : "";
  const states = new Set(Array.from(controls.querySelectorAll("[name=state]:checked"), (box) => box.value));
  let shown = 0;
  for (const row of rows) {
    const fits = states.has(row.dataset.state)
      && (!target || row.dataset.target === target)
      && (!text || textOf(row).includes(text));
    row.hidden = !fits;
    shown += fits;
  }
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
