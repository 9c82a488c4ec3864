"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";

/** element("a", {href: "#x"}, "text", child): text is never taken for markup. */
function element(name, attributes = {}, ...children) {
  const made = name.startsWith("svg:") ? document.createElementNS(SVG, name.slice(4)) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Curves

const stroke = (line) => ({
  fill: "none", stroke: line.colour ? `var(--c${line.colour})` : "var(--accent)", "stroke-width": 1.8,
  "stroke-dasharray": line.dash || "none", "stroke-linejoin": "round",
});

/** Pieces of a line between gaps, each a list of indices. */
function pieces(values) {
  const found = [[]];
  values.forEach((value, i) => (value === null ? found.push([]) : found.at(-1).push(i)));
  return found.filter((piece) => piece.length);
}

function niceStep(span) {
  const power = 10 ** Math.floor(Math.log10(span / 4));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => span / step <= 5);
}

function drawing(chart, width) {
  const height = 230, left = 30, right = width - 14, top = 8, bottom = height - 34;
  const x = (step) => left + ((right - left) * step) / chart.updates;
  const y = (percent) => bottom - ((bottom - top) * percent) / 100;
  const svg = element("svg:svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": chart.title });
  const add = (name, attributes, ...children) => svg.append(element(`svg:${name}`, attributes, ...children));
  chart.ends.forEach((end, task) => {
    const start = task ? chart.ends[task - 1] : 0;
    if (task % 2) add("rect", { x: x(start), y: top, width: x(end) - x(start), height: bottom - top, fill: "var(--shade)" });
  });
  for (const percent of [0, 25, 50, 75, 100]) {
    add("line", { x1: left, x2: right, y1: y(percent), y2: y(percent), stroke: "var(--line)" });
    add("text", { x: left - 5, y: y(percent) + 4, "text-anchor": "end" }, String(percent));
  }
  for (let step = 0; step <= chart.updates; step += niceStep(chart.updates))
    add("text", { x: x(step), y: bottom + 15, "text-anchor": "middle" }, String(Math.round(step)));
  add("text", { x: (left + right) / 2, y: height - 4, "text-anchor": "middle" }, "updates");
  for (const line of chart.series) {
    for (const piece of pieces(line.mean)) {
      const edge = (i, sign) => `${x(line.steps[i])},${y(line.mean[i] + sign * line.error[i])}`;
      if (line.error && line.error[piece[0]] !== null) {
        const around = [...piece.map((i) => edge(i, 1)), ...piece.toReversed().map((i) => edge(i, -1))];
        add("polygon", { points: around.join(" "), fill: stroke(line).stroke, opacity: 0.18 });
      }
      add("polyline", { points: piece.map((i) => `${x(line.steps[i])},${y(line.mean[i])}`).join(" "), ...stroke(line) });
    }
  }
  const cursor = element("svg:line", { y1: top, y2: bottom, stroke: "var(--muted)", visibility: "hidden" });
  svg.append(cursor);
  return { svg, cursor, x, stepAt: (pixel) => (chart.updates * (pixel - left)) / (right - left) };
}

/** A curve with a legend that tells the values under the pointer. */
function show(chart, host) {
  const place = element("div", { class: "chart" }, element("h4", {}, `${chart.title}, %`));
  const values = chart.series.map(() => element("span"));
  const legend = chart.series.map((line, i) => {
    const sample = element("svg:svg", { viewBox: "0 0 26 10", "aria-hidden": "true" });
    sample.append(element("svg:line", { x1: 0, x2: 26, y1: 5, y2: 5, ...stroke(line) }));
    return element("li", {}, sample, line.name, " ", values[i]);
  });
  place.append(element("ul", {}, ...legend));
  host.append(place);
  let drawn = null;
  new ResizeObserver(() => {
    const width = Math.max(240, Math.round(place.clientWidth));
    if (drawn?.width === width) return;
    drawn?.svg.remove();
    drawn = { ...drawing(chart, width), width };
    place.insertBefore(drawn.svg, place.lastChild);
    drawn.svg.addEventListener("pointermove", (event) => {
      const box = drawn.svg.getBoundingClientRect();
      const wanted = drawn.stepAt(((event.clientX - box.left) * width) / box.width);
      chart.series.forEach((line, n) => {
        const i = line.steps.reduce((best, s, k) => (Math.abs(s - wanted) < Math.abs(line.steps[best] - wanted) ? k : best), 0);
        const [mean, error] = [line.mean[i], line.error?.[i] ?? null];
        values[n].textContent = mean === null ? "–" : mean.toFixed(1) + (error === null ? "" : ` ± ${error.toFixed(1)}`);
        for (const end of ["x1", "x2"]) drawn.cursor.setAttribute(end, drawn.x(line.steps[i]));
      });
      drawn.cursor.setAttribute("visibility", "visible");
    });
    drawn.svg.addEventListener("pointerleave", () => {
      values.forEach((value) => (value.textContent = ""));
      drawn.cursor.setAttribute("visibility", "hidden");
    });
  }).observe(place);
}

for (const host of document.querySelectorAll("[data-charts]"))
  for (const chart of data.charts[host.dataset.charts]) show(chart, host);

// The list of runs

const form = document.querySelector(".filters");
const body = document.querySelector("table.runs tbody");
const rows = [...body.rows];
let only = null; // the ids behind a number

function filter() {
  const wanted = form.elements.text.value.toLowerCase().trim();
  let shown = 0;
  for (const row of rows) {
    const { id, method, stream, status } = row.dataset;
    const fits = (name, value) => !form.elements[name].value || form.elements[name].value === value;
    row.hidden = !((!only || only.has(id)) && fits("method", method) && fits("stream", stream) && fits("status", status)
      && (row.textContent + id).toLowerCase().includes(wanted));
    shown += !row.hidden;
  }
  form.querySelector("output").textContent =
    `${shown} of ${rows.length} runs` + (only ? `, of the ${only.size} behind the number you came from` : "");
}

form.addEventListener("input", filter);
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", () => {
  only = null;
  if (location.hash.startsWith("#runs=")) history.replaceState(null, "", "#runs");
  setTimeout(filter);
});

const heads = [...document.querySelectorAll("table.runs thead th")];
heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
  const sign = head.ariaSort === "ascending" ? -1 : 1;
  for (const each of heads) each.ariaSort = "none";
  head.ariaSort = sign > 0 ? "ascending" : "descending";
  const value = (row) => row.cells[column].textContent.trim();
  const numeric = !rows[0]?.cells[column].matches(".text, th");
  const compare = (a, b) => (numeric ? (parseFloat(a) || 0) - (parseFloat(b) || 0) : a.localeCompare(b));
  body.append(...rows.sort((a, b) => sign * compare(value(a), value(b))));
}));

// One run

const dialog = document.querySelector("dialog");

/** Numbers as people read them. */
function readable(value) {
  if (typeof value !== "number") return String(value);
  return value.toLocaleString("en", Number.isInteger(value) ? { useGrouping: "min2" } : { maximumSignificantDigits: 6 });
}

function openRun(id) {
  const run = Object.hasOwn(data.runs, id) ? data.runs[id] : null;
  if (!run) return;
  dialog.querySelector("h2").textContent = run.title;
  const parts = dialog.querySelector(".body");
  parts.replaceChildren();
  if (run.why) parts.append(element("pre", { class: "scroll failed", tabindex: 0 }, run.why));
  if (run.chart) show(run.chart, parts);
  const groups = element("div", { class: "groups" });
  for (const [name, fields] of Object.entries(run.groups)) {
    const pairs = Object.entries(fields).flatMap(([field, value]) => [
      element("dt", {}, field.replaceAll("_", " ")), element("dd", {}, readable(value)),
    ]);
    if (pairs.length) groups.append(element("section", {}, element("h3", {}, name), element("dl", {}, ...pairs)));
  }
  parts.append(groups);
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
}

dialog.addEventListener("close", () => history.replaceState(null, "", only ? `#runs=${[...only].join(",")}` : "#runs"));
dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
body.addEventListener("click", (event) => {
  const row = event.target.closest("tr");
  if (row && !event.target.closest("a") && !String(getSelection())) location.hash = `run=${row.dataset.id}`;
});

/** #runs=id,id filters the list; #run=id opens one; any other opens what it names. */
function follow() {
  const [name, value] = decodeURIComponent(location.hash.slice(1)).split("=");
  if (name !== "run" && dialog.open) dialog.close();
  if (name === "run" && value) return openRun(value);
  if (name === "runs" && value) {
    for (const field of form.querySelectorAll("input, select")) field.value = "";
    only = new Set(value.split(","));
    filter();
    const title = document.querySelector("#runs h2");
    title.scrollIntoView();
    title.focus({ preventScroll: true });
    return;
  }
  const target = document.getElementById(name);
  if (target?.matches("details")) target.open = true;
}

addEventListener("hashchange", follow);
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => (each.open = true)));
filter();
follow();
