// Works on a page as a reader does, and writes what it finds into the page.
addEventListener("load", () => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const one = (selector) => document.querySelector(selector);
  const found = window.commonFindings();

  // Sorting: both orders of a column of numbers.
  const headings = all("#slow-table thead th");
  const place = headings.findIndex((heading) => heading.textContent.startsWith("time"));
  const numbers = () => all("#slow-table tbody tr").map((row) => Number(row.cells[place].dataset.v ?? row.cells[place].textContent));
  headings[place].querySelector("button").click();
  found.descending = numbers();
  headings[place].querySelector("button").click();
  found.ascending = numbers();

  // A selection with the pointer, from a quarter to a half of the first chart.
  const chart = one("svg.time");
  const box = chart.getBoundingClientRect();
  Element.prototype.setPointerCapture = () => {};
  const point = (kind, share) => chart.dispatchEvent(new PointerEvent(kind, {
    button: 0, pointerId: 1, bubbles: true, clientX: box.left + box.width * (0.07 + 0.92 * share), clientY: box.top + 20,
  }));
  point("pointerdown", 0.25);
  point("pointermove", 0.4);
  point("pointerup", 0.5);
  found.hash = location.hash;
  found.selected = document.getElementById("selected").textContent;
  found.isPart = document.body.classList.contains("part");
  const unfollowed = () => all(".unfollowed").filter((note) => getComputedStyle(note).display !== "none").map((note) => note.closest("section").id);
  found.unfollowed = unfollowed();
  found.shown = all("#slow-table tbody tr:not([hidden])").map((row) => [Number(row.dataset.from), Number(row.dataset.to)]);
  found.hidden = all("#slow-table tbody tr[hidden]").map((row) => [Number(row.dataset.from), Number(row.dataset.to)]);
  found.idle = all("tr.idle").length;
  found.files = all("#file-table tbody tr").map((row) => ({
    isHidden: row.hidden,
    isPale: row.classList.contains("idle"),
    chosen: [...row.querySelectorAll("td.chosen")].map((cell) => Number(cell.dataset.v)),
  }));
  found.fileCaption = document.querySelector("#file-table caption")?.textContent ?? "";

  // Keys of a chart: the selection moves, then its end does.
  const press = (key, shiftKey) => chart.dispatchEvent(new KeyboardEvent("keydown", { key, shiftKey, bubbles: true }));
  found.hasFocus = (chart.focus(), document.activeElement === chart);
  const keys = [["ArrowRight", false], ["ArrowRight", true], ["Home", false], ["End", true], ["Escape", false]];
  found.moves = keys.map(([key, isEnd]) => { press(key, isEnd); return location.hash; });
  document.getElementById("reset").click();
  found.unfollowedAfterReset = unfollowed();
  found.isPartAfterReset = document.body.classList.contains("part");
  found.hiddenAfterReset = all("#slow-table tbody tr[hidden], #file-table tbody tr[hidden]").length;

  const result = document.createElement("pre");
  result.id = "probe-result";
  result.textContent = JSON.stringify(found);
  document.body.append(result);
});
