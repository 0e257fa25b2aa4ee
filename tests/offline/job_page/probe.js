// Works on the page of a job as a reader does, and writes what it finds into the page.
addEventListener("load", () => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const found = window.commonFindings();

  // Sorting of the table of ranks by time: the largest first.
  const headings = all("#ranks table thead th");
  const place = headings.findIndex((heading) => heading.textContent.startsWith("time on files"));
  headings[place].querySelector("button").click();
  found.descending = all("#ranks table tbody tr").map((row) => Number(row.cells[place].dataset.v ?? row.cells[place].textContent));

  // Choice of a measure.
  const shownMaps = () => all(".map").filter((map) => getComputedStyle(map).display !== "none").map((map) => map.querySelector("figure").id);
  found.shownMaps = shownMaps();
  document.querySelector("label[for=show-written]").click();
  found.shownAfterChoice = shownMaps();

  // Keys of the map.
  const map = document.querySelector("#map-written svg.time");
  const text = () => document.getElementById("field").textContent;
  const press = (key) => { map.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })); return text(); };
  found.texts = [text(), press("ArrowDown"), press("ArrowRight"), (press("PageDown"), text()), press("Escape")];

  // A click on the third line.
  const line = JSON.parse(document.getElementById("data-job-map").textContent).lines[2];
  const box = map.getBoundingClientRect();
  const unit = box.width / 1000;
  map.dispatchEvent(new MouseEvent("click", { bubbles: true, clientX: box.left + 80 * unit, clientY: box.top + (8 + line.y + 3) * unit }));
  found.clicked = text();

  const result = document.createElement("pre");
  result.id = "probe-result";
  result.textContent = JSON.stringify(found);
  document.body.append(result);
});
