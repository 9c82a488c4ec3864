import {$, ago, bar, bytes, counted, el, look, number, percent} from "./elements.js";
import {attempt, json, now, teaches} from "./service.js";
import {drawChart} from "./chart.js";

const FEW = 10, IDLE = 5000, GALLERY = 3000;
let all = false, rows = new Map(), held = new Map(), gallery = {of: null, time: 0}, idle, later;

export function drawWatch() {
  const {state, progress} = now;
  $("welcome").hidden = state.step > 0;
  $("first-command").textContent = firstCommand(state);
  for (const part of document.querySelectorAll("#welcome ~ *")) part.hidden = !state.step;
  $("recent").textContent = percent(progress.recent_accuracy);
  $("overall").textContent = percent(progress.accuracy);
  $("samples").textContent = number(progress.samples);
  $("classes").textContent = number(state.classes);
  $("chart").hidden = !progress.on;
  $("chart-note").textContent = progress.on
    ? "Every labelled sample is answered first, then learned: no test set is needed. Marks show where classes appeared."
    : "Answers are not counted: it was started with --progress 0.";
  drawChart(progress);
  drawClasses();
  drawMistakes(progress.confused);
  $("memory-use").textContent = `${number(state.memory.held)} of ${number(state.memory.capacity)} places · ${bytes(state.memory.bytes)}`;
  $("versions").replaceChildren(...state.checkpoints.map(each => el("li", {},
    el("span", {class: "grow"}, `Step ${number(each.step)}`), el("span", {class: "hidden"}, ", "), el("span", {class: "muted"}, `${ago(each.time)} · ${bytes(each.nbytes)}`))));
  const load = {"Changes in the queue": state.queue, "Open questions": state.pending, "Of a class not met before": percent(progress.unknown), Method: state.method, Weights: state.precision};
  $("load").replaceChildren(...Object.entries(load).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
  refreshGallery();
}

// The rate is that of the last steps; when none come, it is nothing.
export function drawRate() {
  const {rate} = now.progress;
  $("rate").textContent = rate < 10 ? rate.toFixed(1) : number(Math.round(rate));
  clearTimeout(idle);
  idle = setTimeout(() => { $("rate").textContent = "0"; }, IDLE);
}

function firstCommand({shape}) {
  const sent = shape.length === 1 ? `-d '{"arrays": [[${Array(Math.min(shape[0], 8)).fill(0).join(", ")}${shape[0] > 8 ? ", …" : ""}]], "labels": ["calm"]}'` : "-F files=@heron.jpg -F label=heron";
  return `curl ${location.origin}/v1/learn ${sent}`;
}

// Rows stay, so that their pictures do not blink. The newest class comes first.
function drawClasses() {
  const uncounted = [...held.keys()].map(label => ({label, samples: 0, right: 0}));
  const known = now.progress.on ? [...now.progress.classes].sort((a, b) => b.first - a.first) : uncounted;
  const shown = all ? known : known.slice(0, FEW);
  rows = new Map(shown.map(each => [each.label, rows.get(each.label) ?? row(each.label)]));
  for (const each of shown) {
    const {track, share, count} = rows.get(each.label);
    track.firstChild.style.width = `${100 * each.right / Math.max(1, each.samples)}%`;
    share.textContent = each.samples ? percent(each.right / each.samples) : "";
    count.textContent = each.samples ? `of ${number(each.samples)}` : "";
  }
  const wanted = shown.map(each => rows.get(each.label).li), list = $("by-class");
  if (wanted.length !== list.children.length || wanted.some((li, index) => li !== list.children[index])) {
    list.replaceChildren(...wanted);
    gallery.of = null;
  }
  const button = $("more").firstChild;
  $("more").hidden = known.length <= FEW;
  button.textContent = all ? "Show the newest only" : `Show all ${number(known.length)} classes`;
  button.setAttribute("aria-expanded", all);
}

function row(label) {
  const track = bar(0), share = el("strong"), count = el("span", {class: "muted"});
  const places = el("span", {class: "muted"}), tiles = el("div", {class: "tiles"});
  const li = el("li", {}, el("p", {class: "who"}, el("span", {class: "name", title: label}, label), places), tiles,
    track, el("p", {class: "value"}, share, " ", count));
  return {li, track, share, count, places, tiles};
}

async function refreshGallery() {
  if (!teaches() || gallery.of === now.state.step) return;
  clearTimeout(later);
  const wait = gallery.time + GALLERY - Date.now();
  if (wait > 0) { later = setTimeout(refreshGallery, wait); return; }
  gallery = {of: now.state.step, time: Date.now()};
  const found = await attempt(() => json("v1/memory/samples?most=8"));
  if (!found) return;
  held = new Map(found.map(each => [each.label, each]));
  if (!now.progress.on) drawClasses();
  for (const [label, {places, tiles}] of rows) {
    const {count = 0, newest = []} = held.get(label) ?? {};
    places.textContent = `${number(count)} held`;
    tiles.replaceChildren(...newest.slice(0, newest[0]?.image ? 8 : 4).map(sample =>
      look(sample, `${label}, ${counted(sample.age, "sample")} ago`)));
  }
}

function drawMistakes(confused) {
  const most = Math.max(1, ...confused.map(each => each.count));
  $("confused").replaceChildren(...confused.slice(0, 6).map(each => el("li", {},
    el("p", {class: "who"}, el("span", {class: "name", title: `${each.label}, taken for ${each.answer}`}, each.label, el("span", {class: "muted"}, " taken for "), each.answer),
      el("strong", {}, number(each.count))),
    bar(each.count / most))));
}

$("more").firstChild.addEventListener("click", () => { all = !all; drawWatch(); });
addEventListener("resize", () => { if (now.progress) drawChart(now.progress); });
