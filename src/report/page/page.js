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

  // Columns of the table of files for a selection, behind its names: hidden until there is one.
  const CHOSEN = [["operations", 1], ["bytes", 2], ["time", 3]];
  const fileTable = document.querySelector("#file-table table");
  const fileRows = fileTable && byId("data-file-rows") ? [...fileTable.tBodies[0].rows] : [];
  const addChosen = (row, tag, texts) => {
    const cells = texts.map((text) => {
      const cell = document.createElement(tag);
      cell.className = "n chosen";
      cell.hidden = true;
      cell.textContent = text;
      if (tag === "th") cell.scope = "col";
      return cell;
    });
    row.cells[0].after(...cells);
  };
  if (fileRows.length) {
    addChosen(fileTable.tHead.rows[0], "th", CHOSEN.map(([what]) => `${what} in the selection`));
    fileRows.forEach((row) => addChosen(row, "td", CHOSEN.map(() => "")));
  }

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

  // Sum of an amount over the bins that the selection touches.
  const sumOf = (name, [from, to]) => {
    const bin = (ns) => (ns - data.origin_ns) / data.bin_ns;
    const first = Math.floor(bin(from)), last = Math.ceil(bin(to));
    return data.bins[name].slice(first, last).reduce((sum, amount) => sum + amount, 0);
  };

  const inUnit = (ns) => `${Math.round(ns / 1e3)}us`;

  const tellSums = (range) => {
    const size = (name) => amounts.size(sumOf(name, range));
    const count = (name) => amounts.count(sumOf(name, range));
    byId("selected").textContent =
      `${amounts.time(range[0])} to ${amounts.time(range[1])}: ${size("read_bytes")} read in ${count("reads")} calls, ` +
      `${size("written_bytes")} written in ${count("writes")}, ${count("other_operations")} others; disks: ` +
      `${size("device_read_bytes")} read, ${size("device_written_bytes")} written. ` +
      `Activity, files and slowest operations follow; for the others make a page with --from ${inUnit(range[0])} --until ${inUnit(range[1])}.`;
  };

  // Sums of the cells of a row that the selection touches: operations, bytes and time.
  const sumsIn = (cells, range) => {
    const sums = [0, 0, 0];
    for (let place = 0; place < cells.length; place += 4) {
      const from = data.origin_ns + cells[place] * data.column_ns;
      if (from >= range[1] || from + data.column_ns <= range[0]) continue;
      sums.forEach((_, what) => { sums[what] += cells[place + 1 + what]; });
    }
    return sums;
  };

  // Tells in a caption how many rows the selection leaves.
  const tellRows = (caption, range, left, more = "") => {
    if (!caption) return;
    caption.dataset.whole ??= caption.textContent;
    caption.textContent = range ? `${caption.dataset.whole}, ${left} of them in the selection${more}` : caption.dataset.whole;
  };

  // Hides files without an operation in the selection. Of pipes, sockets and sums no times are known: they stay.
  const fileCells = fileRows.length ? JSON.parse(byId("data-file-rows").textContent) : [];
  const filterFiles = (range) => {
    let left = 0, unknown = 0;
    fileRows.forEach((row, number) => {
      const cells = fileCells[number];
      const sums = range && cells ? sumsIn(cells, range) : [0, 0, 0];
      row.hidden = Boolean(range && cells && sums[0] + sums[2] === 0);
      row.classList.toggle("idle", Boolean(range && !cells));
      left += range && cells && !row.hidden ? 1 : 0;
      unknown += cells ? 0 : 1;
      all("td.chosen", row).forEach((cell, place) => {
        const [format, sum] = [[amounts.count, amounts.size, amounts.time][place], sums[place]];
        cell.hidden = !range;
        cell.dataset.v = cells ? sum : "-";
        cell.textContent = !cells || sum === 0 ? "-" : format(sum);
      });
    });
    const pale = unknown ? `; of pale rows no times are known` : "";
    tellRows(fileTable?.caption, range, left, pale);
  };

  // Marks the rows of the activity map: their amount in the selection; rows without any are pale.
  const markRow = (row, range) => {
    const cells = data.rows[row.dataset.row] ?? [];
    const isDisk = row.dataset.row.startsWith("device");
    const sum = range ? sumsIn(cells, range)[isDisk ? 1 : 2] : 0;
    row.classList.toggle("idle", Boolean(range) && sum === 0);
    const cell = row.querySelector(".chosen");
    cell.hidden = !range;
    cell.dataset.v = sum;
    cell.textContent = sum === 0 ? "-" : isDisk ? amounts.size(sum) : amounts.time(sum);
    const mark = row.querySelector("rect.selected");
    mark.setAttribute("x", ((range ? range[0] : begin) - data.origin_ns) / data.column_ns);
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
    tellRows(document.querySelector("#slow-table caption"), range, left);
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
    filterFiles(range);
    filterSlowest(range);
    document.body.classList.toggle("part", Boolean(range));
    if (range) tellSums(range);
    else byId("selected").textContent = "Draw over a chart, or use its arrow keys, or enter two times, to look at a part.";
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

  // Keys of a chart: arrows move the selection, or begin one in the middle; with Shift they move
  // its end, so it grows and shrinks. Home and End move it to an end of the recording.
  const KEYS = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
  const moved = (key, isEnd) => {
    const step = (end - begin) / 50;
    const [from, to] = selection ?? [(begin + end) / 2 - step, (begin + end) / 2 + step];
    if (!selection) return [from, to];
    const by = Math.max(begin - (isEnd ? to : from), Math.min(end - to, KEYS[key] * step));
    return isEnd ? [from, Math.max(from + step / 10, to + by)] : [from + by, to + by];
  };
  const onKey = (event) => {
    if (!(event.key in KEYS) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    select(...moved(event.key, event.shiftKey));
  };

  for (const chart of charts) {
    chart.tabIndex = 0;
    chart.addEventListener("keydown", onKey);
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
