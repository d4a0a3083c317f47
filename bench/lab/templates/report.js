// report.js: sorts a table by the column whose heading is clicked; on a narrow screen, closes all
// bar charts but the first. Everything else on the page works without it.
"use strict";
function valueOf(cell) {
  const text = cell.dataset.v ?? cell.textContent.trim();
  const number = parseFloat(text);
  if (!Number.isNaN(number)) return number;
  return cell.classList.contains("n") ? Infinity : text.toLowerCase();
}
function sortBy(table, head, column) {
  const up = head.getAttribute("aria-sort") !== "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const rows = [...table.tBodies[0].rows].map((row) => [valueOf(row.cells[column]), row]);
  const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0) * (up ? 1 : -1);
  rows.sort(([a], [b]) => (a === Infinity ? 1 : b === Infinity ? -1 : order(a, b)));
  table.tBodies[0].append(...rows.map(([, row]) => row));
}
for (const table of document.querySelectorAll("table.sortable")) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    head.tabIndex = 0;
    head.addEventListener("click", () => sortBy(table, head, column));
    head.addEventListener("keydown", (event) => {
      if (event.key === "Enter") sortBy(table, head, column);
    });
  });
}
if (matchMedia("(max-width: 640px)").matches) {
  for (const each of [...document.querySelectorAll("section > details")].slice(1)) {
    each.open = false;
  }
}
