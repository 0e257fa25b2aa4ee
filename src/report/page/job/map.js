// Selection of a line and a field on the maps of a job. The page is complete without it.
"use strict";
(() => {
  const element = document.getElementById("data-job-map");
  const output = document.getElementById("field");
  if (!element || !output) return;
  const data = JSON.parse(element.textContent);
  const maps = [...document.querySelectorAll(".map svg.time")];
  if (!maps.length || !data.lines.length) return;
  const WIDTH = 1000, LEFT = 70, PLOT = 920, TOP = 8;
  const columns = Math.ceil(data.to_ns / data.column_ns);
  let at = null;

  const { counted, size, time } = amounts;
  const sums = (read, written, ns, others) =>
    `${size(read)} read, ${size(written)} written, ${time(ns)} in operations on files, ` +
    `${counted(others, "operation")} that neither read nor write`;

  const tell = () => {
    const line = data.lines[at.line];
    const of = line.ranks > 1 ? `, ${counted(line.ranks, "rank")} together` : "";
    let text = `${line.name} on ${line.hosts}${of}: ${counted(line.file_operations, "operation")} on files; ` +
      sums(line.file_read_bytes, line.file_written_bytes, line.file_ns, line.other_operations) + ".";
    if (line.slowest) text += ` Slowest file: ${line.slowest.path} (${time(line.slowest.ns)}).`;
    if (line.missing) text += ` INCOMPLETE: ${line.missing}.`;
    if (at.column !== null) {
      const [from, to] = [at.column, at.column + 1].map((column) => time(Math.min(column * data.column_ns, data.to_ns)));
      let cell = [0, 0, 0, 0, 0];
      for (let place = 0; place < line.cells.length; place += 5) {
        if (line.cells[place] === at.column) cell = line.cells.slice(place, place + 5);
      }
      text = `From ${from} to ${to}: ${sums(cell[1], cell[2], cell[4], cell[3])}. In all, ${text}`;
    }
    output.textContent = text;
  };

  const show = () => {
    for (const map of maps) {
      const mark = map.querySelector("rect.selected");
      const unit = (PLOT * data.column_ns) / data.to_ns;
      const x = at && at.column !== null ? at.column * unit : 0;
      mark.setAttribute("x", x);
      mark.setAttribute("width", !at ? 0 : at.column === null ? PLOT : Math.max(2, Math.min(unit, PLOT - x)));
      mark.setAttribute("y", at ? data.lines[at.line].y : 0);
      mark.setAttribute("height", at ? data.line_height : 0);
    }
    if (at) tell();
    else output.textContent = "Point at a field, or use the arrow keys on the map: up and down lead to a line, left and right to a field of it.";
  };

  const limited = (number, end) => Math.min(end, Math.max(0, number));
  const moved = (key) => {
    const last = data.lines.length - 1;
    const { line, column } = at ?? { line: 0, column: null };
    const lines = { ArrowUp: -1, ArrowDown: 1, PageUp: -10, PageDown: 10 };
    const fields = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    if (key in lines) return { line: at ? limited(line + lines[key], last) : 0, column };
    if (!(key in fields)) return null;
    if (column === null) return { line, column: key === "ArrowLeft" || key === "End" ? columns - 1 : 0 };
    return { line, column: limited(column + fields[key], columns - 1) };
  };

  const fieldAt = (map, event) => {
    const box = map.getBoundingClientRect();
    const unit = WIDTH / box.width;
    const x = (event.clientX - box.left) * unit - LEFT;
    const y = (event.clientY - box.top) * unit - TOP;
    const line = data.lines.findIndex((line) => y >= line.y && y < line.y + data.line_height);
    if (line < 0) return null;
    const column = x < 0 ? null : limited(Math.floor(((x / PLOT) * data.to_ns) / data.column_ns), columns - 1);
    return { line, column };
  };

  for (const map of maps) {
    map.tabIndex = 0;
    map.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const next = event.key === "Escape" ? null : moved(event.key);
      if (!next && (event.key !== "Escape" || !at)) return;
      event.preventDefault();
      at = next;
      show();
    });
    map.addEventListener("click", (event) => {
      at = fieldAt(map, event) ?? at;
      show();
    });
  }
  document.body.classList.add("brush");
  show();
})();
