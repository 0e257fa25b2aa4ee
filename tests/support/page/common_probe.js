// Findings that every page has: errors, requests, labels, headings, contrast.
window.commonFindings = () => {
  const all = (selector) => [...document.querySelectorAll(selector)];
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
  return found;
};
