"use strict";
// Tables: a click on a header sorts by that column, a second one the other way round.
for (const table of document.querySelectorAll("table.sorts")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    heads.forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = table.tBodies[0];
    const value = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const text = head.classList.contains("text");
    const order = (a, b) => text ? a.localeCompare(b, "en", { numeric: true }) : a - b;
    const rows = [...body.rows].map(row => [value(row), row]);
    // What has no value stays at the end.
    rows.sort(([a], [b]) => (a === "") - (b === "") || (down ? order(b, a) : order(a, b)));
    body.append(...rows.map(([, row]) => row));
  }));
}

// Curves: drawn at the width that there is, so that the letters keep their size.
const space = "http://www.w3.org/2000/svg";
function put(parent, name, attributes, text) {
  const node = document.createElementNS(space, name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}
const dashes = ["", "7 3", "2 3", "9 3 2 3", "4 2", "1 2", "12 4", "5 2 1 2"];
const shapes = ["circle", "square", "diamond", "triangle"];
function stroke(series) {
  return `var(--s${series.style % 8})`;
}
function line(parent, series, points) {
  put(parent, "polyline", { points, fill: "none", stroke: stroke(series), "stroke-width": series.ours ? 2.6 : 1.6,
    "stroke-dasharray": dashes[series.style % 8], "stroke-linejoin": "round" });
}
function mark(parent, series, x, y, title) {
  const fill = stroke(series), r = series.ours ? 3.6 : 3;
  const shape = shapes[series.style % 4];
  const corners = { square: [[-r, -r], [r, -r], [r, r], [-r, r]], diamond: [[0, -r - 1], [r + 1, 0], [0, r + 1], [-r - 1, 0]],
    triangle: [[0, -r - 1], [r + 1, r], [-r - 1, r]] }[shape];
  const node = corners
    ? put(parent, "polygon", { points: corners.map(([a, b]) => `${x + a},${y + b}`).join(" "), fill })
    : put(parent, "circle", { cx: x, cy: y, r, fill });
  if (title) put(node, "title", {}, title);
}
function short(value) {
  const units = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];
  for (const [size, letter] of units) if (value >= size) return +(value / size).toPrecision(3) + letter;
  return String(+value.toPrecision(3));
}
function time(nanos) {
  const units = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]];
  for (const [size, unit] of units) if (nanos >= size) return +(nanos / size).toPrecision(3) + " " + unit;
  return +nanos.toPrecision(3) + " ns";
}
// One place a decade, and where there are few decades, 2 and 5 too.
function ticks(low, high) {
  const wide = Math.log10(high / low);
  const steps = wide > 3.5 ? [1] : wide > 1.2 ? [1, 3] : [1, 1.5, 2, 3, 5, 7];
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
    for (const step of steps) {
      const value = step * 10 ** power;
      if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
    }
  return found;
}
function draw(plot) {
  const data = plot.data;
  const width = Math.max(240, plot.box.clientWidth), height = Math.round(Math.min(300, Math.max(200, width * 0.55)));
  const left = 54, right = 14, top = 10, bottom = 38;
  plot.box.querySelector("svg.curves")?.remove();
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("class", "curves");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", plot.box.dataset.title);
  plot.box.prepend(svg);
  const percentile = data.x === "percentile";
  const across = x => percentile ? 1 / (1 - Math.min(x, 99.9999) / 100) : x;
  const all = data.series.flatMap(series => series.points);
  // The longest of all has no percentile of its own; it stands one third of a decade after the last.
  const last = percentile ? Math.max(...all.filter(p => p[0] < 100).map(p => across(p[0]))) * 2.2 : 0;
  const place = x => percentile && x === 100 ? last : across(x);
  const xs = all.map(p => place(p[0])), ys = all.map(p => p[1]).filter(y => y > 0);
  let [xlow, xhigh, ylow, yhigh] = [Math.min(...xs), Math.max(...xs), Math.min(...ys) * 0.9, Math.max(...ys) * 1.1];
  if (xlow === xhigh) xhigh = xlow * 2;
  const X = x => left + (width - left - right) * Math.log(place(x) / xlow) / Math.log(xhigh / xlow);
  const Y = y => height - bottom - (height - top - bottom) * Math.log(Math.max(y, ylow) / ylow) / Math.log(yhigh / ylow);
  const unit = data.unit.startsWith("ns") ? time : short;
  for (const y of ticks(ylow, yhigh)) {
    put(svg, "line", { class: "axis", x1: left, x2: width - right, y1: Y(y), y2: Y(y) });
    put(svg, "text", { x: left - 7, y: Y(y) + 4, "text-anchor": "end" }, unit(y));
  }
  const xticks = percentile ? [50, 90, 99, 99.9, 99.99, 100].filter(x => place(x) <= xhigh * 1.001) : [...new Set(all.map(p => p[0]))].sort((a, b) => a - b);
  for (const x of xticks) {
    // Where two labels would meet, the last one, which is the end of the scale, stays.
    const ends = X(xticks[xticks.length - 1]);
    if (x !== xticks[xticks.length - 1] && ends - X(x) < 58) continue;
    put(svg, "line", { class: "axis", x1: X(x), x2: X(x), y1: height - bottom, y2: height - bottom + 4 });
    const label = percentile ? (x === 100 ? "max" : "p" + x) : short(x);
    put(svg, "text", { x: X(x), y: height - bottom + 16, "text-anchor": x === xticks[xticks.length - 1] ? "end" : "middle" }, label);
  }
  put(svg, "text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, percentile ? "percentile" : data.x);
  for (const series of [...data.series].sort((a, b) => a.ours - b.ours)) {
    line(svg, series, series.points.map(([x, y]) => `${X(x).toFixed(1)},${Y(y).toFixed(1)}`).join(" "));
    for (const [x, y] of series.points)
      mark(svg, series, X(x), Y(y), `${series.name}: ${unit(y)} at ${percentile ? (x === 100 ? "most" : "p" + x) : data.x + " = " + x}`);
  }
}
const plots = [...document.querySelectorAll(".plot")].map(box => {
  const data = JSON.parse(box.querySelector("script").textContent);
  const legend = document.createElement("div");
  legend.className = "legend";
  for (const series of data.series) {
    const entry = document.createElement("span");
    const key = document.createElementNS(space, "svg");
    key.setAttribute("viewBox", "0 0 27 12");
    key.setAttribute("aria-hidden", "true");
    line(key, series, "0,6 27,6");
    mark(key, series, 13.5, 6);
    entry.append(key, series.name);
    legend.append(entry);
  }
  box.append(legend);
  return { box, data };
});
const redraw = () => plots.filter(plot => plot.box.clientWidth > 0).forEach(draw);
redraw();
addEventListener("resize", redraw);
document.querySelectorAll("details").forEach(details => details.addEventListener("toggle", redraw));
