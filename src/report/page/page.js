// Selection of a time on the charts, and sorting of tables. The page is complete without it.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // ---- Sorting: a click on a heading sorts by its exact numbers, or by its texts.

  const valueOf = (row, place) => {
    const cell = row.cells[place];
    const text = cell.dataset.v ?? cell.textContent.trim();
    const number = text === "-" || text === "" ? -Infinity : Number(text);
    return Number.isNaN(number) ? text : number;
  };

  const compared = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a === b ? 0 : a < b ? -1 : 1;
    return String(a).localeCompare(String(b));
  };

  const sort = (table, heading, place) => {
    const first = heading.classList.contains("n") ? "descending" : "ascending";
    const other = first === "descending" ? "ascending" : "descending";
    const order = heading.getAttribute("aria-sort") === first ? other : first;
    all("th[aria-sort]", table).forEach((th) => th.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [valueOf(row, place), row]);
    rows.sort((a, b) => sign * compared(a[0], b[0]));
    body.append(...rows.map((row) => row[1]));
  };

  const makeSortable = (table) => {
    all("thead th", table).forEach((heading, place) => {
      if (heading.classList.contains("strip")) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      button.addEventListener("click", () => sort(table, heading, place));
      heading.append(button);
    });
  };

  all("table.sortable").forEach(makeSortable);

  // ---- Printing: closed parts are printed, too.

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = all("details:not([open])").filter((part) => !part.closest("td"));
    opened.forEach((part) => { part.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((part) => { part.open = false; }));

  // ---- Selection of a time.

  const form = byId("selection");
  if (!form) return;
  const data = JSON.parse(byId("data-timeline").textContent);
  const [begin, end] = [data.from_ns, data.to_ns];
  const charts = all("svg.time");
  const LEFT = 70, PLOT = 920;
  let selection = null;

  const UNITS = {
    time: [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]],
    size: [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]],
  };
  const shown = (amount, units) => {
    const [unit, name] = units.find((unit) => amount >= unit[0]) ?? units[units.length - 1];
    return `${(amount / unit).toPrecision(3)} ${name}`;
  };

  // Sum of an amount over the bins that the selection touches.
  const sumOf = (name, [from, to]) => {
    const first = Math.floor(from / data.bin_ns), last = Math.ceil(to / data.bin_ns);
    return data.bins[name].slice(first, last).reduce((sum, amount) => sum + amount, 0);
  };

  const tellSums = (range) => {
    const size = (name) => shown(sumOf(name, range), UNITS.size);
    const count = (name) => sumOf(name, range).toLocaleString("en");
    byId("selected").textContent =
      `${shown(range[1] - range[0], UNITS.time)}: ${size("read_bytes")} read in ${count("reads")} calls, ` +
      `${size("written_bytes")} written in ${count("writes")}, ${count("other_operations")} others; disks: ` +
      `${size("device_read_bytes")} read, ${size("device_written_bytes")} written`;
  };

  // Marks the rows of the activity map: their amount in the selection; rows without any are pale.
  const markRow = (row, range) => {
    const cells = data.rows[row.dataset.row] ?? [];
    const isDisk = row.dataset.row.startsWith("device");
    let sum = 0;
    for (let place = 0; range && place < cells.length; place += 4) {
      const from = cells[place] * data.column_ns;
      if (from < range[1] && from + data.column_ns > range[0]) sum += cells[place + (isDisk ? 2 : 3)];
    }
    row.classList.toggle("idle", Boolean(range) && sum === 0);
    const cell = row.querySelector(".chosen");
    cell.hidden = !range;
    cell.dataset.v = sum;
    cell.textContent = sum === 0 ? "-" : shown(sum, isDisk ? UNITS.size : UNITS.time);
    const mark = row.querySelector("rect.selected");
    mark.setAttribute("x", (range ? range[0] : begin) / data.column_ns);
    mark.setAttribute("width", range ? (range[1] - range[0]) / data.column_ns : 0);
  };

  const filterSlowest = (range) => {
    const rows = all("#slow-table tbody tr");
    let left = 0;
    for (const row of rows) {
      const isIn = !range || (Number(row.dataset.from) < range[1] && Number(row.dataset.to) > range[0]);
      row.hidden = !isIn;
      left += isIn ? 1 : 0;
    }
    const caption = document.querySelector("#slow-table caption");
    if (!caption) return;
    caption.dataset.whole ??= caption.textContent;
    caption.textContent = range ? `${caption.dataset.whole}, ${left} of them in the selection` : caption.dataset.whole;
  };

  const show = () => {
    const range = selection;
    const x = (ns) => LEFT + ((ns - begin) / (end - begin)) * PLOT;
    for (const chart of charts) {
      const mark = chart.querySelector("rect.selected");
      mark.setAttribute("x", range ? x(range[0]) - LEFT : 0);
      mark.setAttribute("width", range ? x(range[1]) - x(range[0]) : 0);
    }
    all("tr[data-row]").forEach((row) => markRow(row, range));
    all("th.chosen").forEach((heading) => { heading.hidden = !range; });
    filterSlowest(range);
    if (range) tellSums(range);
    else byId("selected").textContent = "Draw over a chart, or enter two times, to look at a part.";
    byId("from").value = ((range ? range[0] : begin) / 1e9).toFixed(6);
    byId("to").value = ((range ? range[1] : end) / 1e9).toFixed(6);
  };

  const select = (from, to, keep = true) => {
    const range = [Math.max(begin, Math.min(from, to)), Math.min(end, Math.max(from, to))];
    selection = range[1] > range[0] && range[1] - range[0] < end - begin ? range : null;
    show();
    if (keep) history.replaceState(null, "", selection ? `#t=${selection.map(Math.round).join("-")}` : "#timeline");
  };

  const timeAt = (chart, event) => {
    const box = chart.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * 1000;
    return begin + Math.min(1, Math.max(0, (x - LEFT) / PLOT)) * (end - begin);
  };

  for (const chart of charts) {
    let from = null;
    chart.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      from = timeAt(chart, event);
      chart.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    chart.addEventListener("pointermove", (event) => {
      if (from !== null) select(from, timeAt(chart, event), false);
    });
    chart.addEventListener("pointerup", (event) => {
      if (from !== null) select(from, timeAt(chart, event));
      from = null;
    });
    chart.addEventListener("pointercancel", () => { from = null; });
  }

  const typed = () => select(Number(byId("from").value) * 1e9, Number(byId("to").value) * 1e9);
  byId("from").addEventListener("change", typed);
  byId("to").addEventListener("change", typed);
  form.addEventListener("submit", (event) => { event.preventDefault(); typed(); });
  byId("reset").addEventListener("click", () => select(begin, end));
  addEventListener("keydown", (event) => { if (event.key === "Escape" && selection) select(begin, end); });

  form.hidden = false;
  document.body.classList.add("brush");
  const given = location.hash.match(/^#t=(\d+)-(\d+)$/);
  if (given) select(Number(given[1]), Number(given[2]), false);
  else show();
})();
