import {$, bar, el, look, percent, say, written} from "./elements.js";
import {attempt, json, now, teaches, view} from "./service.js";

let questions = [], current = null;
const originals = new Map();  // by ticket: the picture as it was given

const takesPictures = () => now.state.shape.length === 3 && [1, 3].includes(now.state.shape[0]) && !now.state.takes_floats;

export function drawTeach() {
  $("give-picture").hidden = !takesPictures();
  $("give-values").hidden = takesPictures();
  $("values-shape").textContent = now.state.shape.length ? `(${now.state.shape.join(" × ")})` : "";
}

// ---- what waits

export async function refreshQueue() {
  if (!teaches()) return;
  questions = await attempt(() => json("v1/questions")) ?? questions;
  if (current && current.ticket !== null && !questions.some(each => each.ticket === current.ticket)) current = null;
  if (!current && questions.length) choose(questions[0]); else { drawQueue(); $("question").hidden = !current; }
}

function drawQueue() {
  $("queue").replaceChildren(...questions.map(each => {
    const [{label, probabilities: [best]}] = each.answers, more = each.samples.length - 1;
    return el("li", {}, el("button", {type: "button", "aria-current": each.ticket === current?.ticket ? "true" : null, onclick: () => choose(each, true)},
      look(each.samples[0], ""), el("span", {class: "name"}, label === null ? "Unknown" : `${label}?`, more ? el("span", {class: "muted"}, ` and ${more} more`) : ""),
      el("span", {class: "muted"}, best ? percent(best.probability) : "")));
  }));
}

function choose(question, focus = false) {
  current = {...question, labels: []};
  drawQueue();
  drawQuestion(focus);
}

// ---- one of them

function drawQuestion(focus) {
  $("question").hidden = !current;
  if (!current) return;
  const place = current.labels.length, sample = current.samples[place], answer = current.answers[place];
  const original = originals.get(current.ticket), [best] = answer.probabilities, many = current.samples.length;
  if (original) {
    const seen = sample.image ? [el("figcaption", {}, look(sample, ""), "as the learner sees it")] : [];
    $("shown").replaceChildren(el("img", {src: original, class: "smooth", alt: "The picture that was given"}), ...seen);
  } else {
    $("shown").replaceChildren(look(sample, "The sample that was asked about"), ...(sample.values ? [written(sample)] : []));
  }
  $("verdict").textContent = !best ? "What is this?" : best.probability < .5 ? `Perhaps ${best.label}?` : String(best.label);
  const note = !teaches() ? "This token may ask, but not teach." : best ? `${percent(best.probability)} sure. Confirm it, or say what it is.` : "No class is known yet: name the first one.";
  $("verdict-note").textContent = (many > 1 ? `Sample ${place + 1} of ${many}. ` : "") + note;
  $("candidates").replaceChildren(...answer.probabilities.slice(0, 9).map(({label, probability}, index) => el("li", {},
    el("button", {type: "button", disabled: !teaches(), onclick: () => teach(label), "aria-label": `${label}, ${percent(probability)}`, "aria-keyshortcuts": index + 1},
      el("kbd", {"aria-hidden": "true"}, index + 1), el("span", {class: "name"}, label), bar(probability), el("span", {class: "value"}, percent(probability))))));
  for (const part of $("other").elements) part.disabled = !teaches();
  if (focus) $("verdict").focus();
  if (teaches()) { fillKnown(); drawNeighbours(current, place); }
}

async function fillKnown() {
  const known = await attempt(() => json("v1/classes"));
  if (known) $("known").replaceChildren(...known.map(each => el("option", {value: each.label})));
}

async function drawNeighbours(question, place) {
  const list = $("neighbours").querySelector("ol");
  if (question.samples[place].image) { $("neighbours").hidden = true; return; }
  const near = (await attempt(() => json(`v1/questions/${question.ticket}/neighbours`)))?.[place] ?? [];
  if (question !== current) return;
  $("neighbours").hidden = !near.length;
  list.replaceChildren(...near.map(each => el("li", {},
    el("strong", {class: "name"}, each.label), look(each, ""), el("span", {class: "muted"}, `distance ${each.distance.toPrecision(3)}`))));
}

async function teach(label) {
  if (!current || current.busy) return;
  current.labels.push(label);
  if (current.labels.length < current.samples.length) { drawQuestion(true); return; }
  current.busy = true;
  const {ticket, labels} = current;
  const learned = await attempt(() => json("v1/tell", {body: {ticket, labels}}));
  if (!learned) { current.labels.pop(); current.busy = false; return; }
  say(`Learned ${labels.length > 1 ? `${labels.length} samples` : labels[0]}.`);
  leave(true);
}

function leave(told) {
  const place = questions.findIndex(each => each.ticket === current.ticket);
  if (told) {
    questions.splice(place, 1);
    URL.revokeObjectURL(originals.get(current.ticket));
    originals.delete(current.ticket);
  }
  const next = questions[(told ? place : place + 1) % questions.length];
  if (next) { choose(next, true); return; }
  current = null;
  drawQueue();
  $("question").hidden = true;
  $(takesPictures() ? "file" : "values").focus();
}

// ---- asking

// A photograph may be larger than the service takes, and the learner scales it down anyway.
async function modest(file) {
  if (file.size < 4e6) return file;
  const picture = await createImageBitmap(file), scale = Math.min(1, 1600 / Math.max(picture.width, picture.height));
  const canvas = Object.assign(document.createElement("canvas"), {width: picture.width * scale, height: picture.height * scale});
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  return new Promise(done => canvas.toBlob(done, "image/jpeg", .92));
}

async function ask(send, original) {
  const url = original && URL.createObjectURL(original);
  if (teaches()) {
    const {ticket} = await json("v1/ask", send);
    if (url) originals.set(ticket, url);
    return ticket;
  }
  const {answers} = await json("v1/predict", send);
  if (url) originals.set(null, url);
  current = {ticket: null, labels: [], answers, samples: [original ? {} : {values: send.body.arrays[0].flat(Infinity)}]};
  drawQuestion(true);
  return null;
}

const askAll = sends => attempt(async () => {
  const tickets = [];
  for (const [send, original] of sends) tickets.push(await ask(send, original));
  if (!teaches() || !tickets.length) return;
  questions = await json("v1/questions");
  const mine = questions.find(each => each.ticket === tickets[0]);
  if (mine) choose(mine, true);
});

async function askFiles(files) {
  const pictures = await attempt(() => Promise.all(files.map(modest)));
  await askAll((pictures ?? []).map(picture => [{body: picture, headers: {"Content-Type": picture.type}}, picture]));
}

for (const id of ["file", "camera"]) $(id).addEventListener("change", ({target}) => {
  askFiles([...target.files]);
  target.value = "";
});

for (const name of ["dragover", "dragleave", "drop"]) $("view-teach").addEventListener(name, event => {
  event.preventDefault();
  $("drop").classList.toggle("over", name === "dragover");
  if (name === "drop" && takesPictures()) askFiles([...event.dataTransfer.files]);
});

document.addEventListener("paste", event => {
  const files = [...event.clipboardData.files].filter(file => file.type.startsWith("image/"));
  if (view() === "teach" && files.length) { event.preventDefault(); askFiles(files); }
});

function samplesIn(text) {
  if (!text.startsWith("[")) return text.split("\n").map(line => line.trim().split(/[\s,;]+/).map(Number));
  const found = JSON.parse(text);
  return Array.isArray(found[0]) && now.state.shape.length === 1 ? found : [found];
}

$("give-values").addEventListener("submit", event => {
  event.preventDefault();
  let samples = [];
  try { samples = samplesIn($("values").value.trim()); } catch { /* said below */ }
  if (samples.length && samples.flat(Infinity).every(Number.isFinite)) askAll(samples.map(sample => [{body: {arrays: [sample]}}]));
  else say("These are not numbers: write one sample a line with commas between its values, or JSON.");
});

$("other").addEventListener("submit", event => {
  event.preventDefault();
  const name = $("other-name").value.trim();
  if (!name) return;
  $("other-name").value = "";
  attempt(async () => {
    const known = (await json("v1/classes")).find(each => String(each.label) === name);
    await teach(known ? known.label : name);
  });
});

addEventListener("keydown", ({key, target, ctrlKey, metaKey, altKey}) => {
  if (ctrlKey || metaKey || altKey || target.closest?.("input:not([type=file]), textarea, dialog")) return;
  if (view() !== "teach" || !current || !teaches()) return;
  const choice = current.answers[current.labels.length].probabilities[Number(key) - 1];
  if (/^[1-9]$/.test(key) && choice) teach(choice.label);
  else if (key.toLowerCase() === "n") setTimeout(() => $("other-name").focus());
  else if (key.toLowerCase() === "s" && questions.length) leave(false);
});
