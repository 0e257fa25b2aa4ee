// Works on a page as a reader does, and writes what it finds into the page.
addEventListener("load", () => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const one = (selector) => document.querySelector(selector);
  const found = { errors: window.pageErrors };
  found.requests = performance.getEntriesByType("resource").length;

  // Accessibility: labels, captions, headings, contrast.
  found.unlabeled = [
    ...all("svg:not([aria-hidden])").filter((svg) => !svg.getAttribute("aria-label") && !svg.getAttribute("aria-labelledby")),
    ...all("table").filter((table) => !table.caption || table.caption.textContent.trim() === ""),
    ...all("th:not([scope])"),
    ...all("input").filter((input) => input.labels.length === 0),
    ...all("[aria-labelledby]").filter((part) => part.getAttribute("aria-labelledby").split(" ").some((id) => !document.getElementById(id))),
  ].map((part) => part.outerHTML.slice(0, 120));
  const ids = all("[id]").map((part) => part.id);
  found.repeated = ids.filter((id, place) => ids.indexOf(id) !== place);
  found.headings = all("h1, h2, h3").map((heading) => Number(heading.tagName[1]));
  found.landmarks = ["header", "nav", "main", "footer"].filter((name) => all(name).length === 1);

  const channels = (color) => (color.match(/[\d.]+/g) ?? []).map(Number);
  const light = (color) => {
    const [r, g, b] = channels(color).map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = (part) => {
    for (let at = part; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if ((channels(color)[3] ?? 1) > 0) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const pale = new Set();
  for (const part of all("p, li, a, dt, dd, h1, h2, h3, th, td, caption, summary, code, label, span, strong")) {
    if (part.textContent.trim() === "" || part.closest("svg, [hidden]")) continue;
    const [a, b] = [light(getComputedStyle(part).color), light(paper(part))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) pale.add(`${part.tagName}.${part.className} ${contrast.toFixed(2)}`);
  }
  found.pale = [...pale];
  found.isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  found.overflow = document.documentElement.scrollWidth - innerWidth;

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
