import {$, counted, number, percent, svg} from "./elements.js";

const EDGE = {left: 44, right: 10, top: 46, bottom: 26};
let drawn = null;

// Each point with those before it, so that a line of many short ones can be read.
function smoothed(points) {
  const reach = Math.max(1, Math.round(points.length / 32));
  return points.map((point, index) => {
    const near = points.slice(Math.max(0, index - reach + 1), index + 1);
    const samples = near.reduce((sum, each) => sum + each.samples, 0);
    return {start: point.end - samples, end: point.end, accuracy: near.reduce((sum, each) => sum + each.accuracy * each.samples, 0) / samples};
  });
}

// The last point may be of a few samples only, which then count with those before.
function settled(curve) {
  const [before, last] = curve.slice(-2);
  if (!last || 2 * last.samples >= before.samples) return curve;
  const samples = before.samples + last.samples;
  return [...curve.slice(0, -2), {end: last.end, samples, accuracy: (before.accuracy * before.samples + last.accuracy * last.samples) / samples}];
}

export function drawChart({curve: whole, classes}) {
  const box = $("chart"), width = box.clientWidth, height = box.clientHeight;
  const curve = settled(whole);
  if (!width || !curve.length) { box.replaceChildren(); drawn = null; return; }
  const total = curve.at(-1).end, floor = height - EDGE.bottom, points = smoothed(curve);
  const x = at => EDGE.left + (width - EDGE.left - EDGE.right) * at / total;
  const y = share => EDGE.top + (floor - EDGE.top) * (1 - share);
  const line = of => of.map(point => `${x(point.end).toFixed(1)},${y(point.accuracy).toFixed(1)}`).join(" ");
  const cross = svg("line", {class: "cross", y1: EDGE.top, y2: floor, visibility: "hidden"});
  const dot = svg("circle", {class: "at", r: 5, visibility: "hidden"});
  box.replaceChildren(svg("svg", {viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true"},
    ...[0, .5, 1].flatMap(share => [
      svg("line", {class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: y(share), y2: y(share)}),
      svg("text", {x: EDGE.left - 10, y: y(share) + 4, "text-anchor": "end"}, percent(share))]),
    svg("text", {x: EDGE.left, y: height - 6}, "0"),
    svg("text", {x: width - EDGE.right, y: height - 6, "text-anchor": "end"}, counted(total, "sample")),
    ...arrivals(classes, x, width, floor),
    svg("polygon", {class: "area", points: `${x(points[0].end)},${floor} ${line(points)} ${x(total)},${floor}`}),
    svg("polyline", {class: "raw", points: line(curve)}),
    svg("polyline", {class: "curve", points: line(points)}),
    ...(points.length === 1 ? [svg("circle", {class: "at", r: 5, cx: x(total), cy: y(points[0].accuracy)})] : []),
    cross, dot));
  box.setAttribute("aria-label", `Accuracy along ${counted(total, "sample")}: ${percent(points[0].accuracy)} at first, ${percent(points.at(-1).accuracy)} now; ${counted(classes.length, "class", "classes")} appeared. Arrow keys read it point by point.`);
  if (document.activeElement !== box) valued(points.length - 1, points.length - 1, `${percent(points.at(-1).accuracy)} now`);
  drawn = {points, x, y, cross, dot, place: drawn?.place ?? null};
  if (drawn.place !== null) readOff(Math.min(drawn.place, points.length - 1));
}

function arrivals(classes, x, width, floor) {
  const groups = [];
  for (const {label, first} of [...classes].sort((a, b) => a.first - b.first)) {
    if (groups.length && x(first) - groups.at(-1).at < 16) groups.at(-1).names.push(label);
    else groups.push({at: x(first), names: [label]});
  }
  const ends = [-Infinity, -Infinity], marks = [], texts = [];
  for (const {at, names} of groups) {
    let name = names.length > 2 ? `${names.length} classes` : names.join(", ");
    if (name.length > 24) name = `${name.slice(0, 23)}…`;
    const long = 6.8 * name.length, start = Math.max(0, Math.min(at - 3, width - long));
    const row = ends.findIndex(end => end < start);
    marks.push(svg("line", {class: "mark", x1: at, x2: at, y1: row === 1 ? 18 : 36, y2: floor}));
    if (row < 0) continue;
    ends[row] = start + long + 10;
    texts.push(svg("text", {class: "arrival", x: start, y: row ? 12 : 30}, name, svg("title", {}, names.join(", "))));
  }
  return [...marks, ...texts];
}

function readOff(place) {
  const {points, x, y, cross, dot} = drawn, point = points[place], at = x(point.end);
  drawn.place = place;
  for (const [name, value] of Object.entries({x1: at, x2: at, visibility: "visible"})) cross.setAttribute(name, value);
  for (const [name, value] of Object.entries({cx: at, cy: y(point.accuracy), visibility: "visible"})) dot.setAttribute(name, value);
  $("readout").textContent = `${percent(point.accuracy)} of samples ${number(point.start + 1)} to ${number(point.end)}`;
}

// What a screen reader says of the point that is read: only what the keys did, not what has come since.
function valued(place, last, text) {
  for (const [name, value] of Object.entries({valuemax: last, valuenow: place, valuetext: text})) $("chart").setAttribute(`aria-${name}`, value);
}

function letGo() {
  $("readout").textContent = "";
  if (!drawn) return;
  drawn.place = null;
  for (const part of [drawn.cross, drawn.dot]) part.setAttribute("visibility", "hidden");
}

$("chart").addEventListener("pointermove", event => {
  if (!drawn) return;
  const at = event.clientX - $("chart").getBoundingClientRect().left;
  const far = drawn.points.map(point => Math.abs(drawn.x(point.end) - at));
  readOff(far.indexOf(Math.min(...far)));
});
$("chart").addEventListener("pointerleave", letGo);
$("chart").addEventListener("blur", letGo);
$("chart").addEventListener("keydown", event => {
  const last = drawn && drawn.points.length - 1, at = drawn?.place ?? last;
  const place = {ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last}[event.key];
  if (!drawn || place === undefined) return;
  event.preventDefault();
  readOff(Math.max(0, Math.min(last, place)));
  valued(drawn.place, last, $("readout").textContent);
});
