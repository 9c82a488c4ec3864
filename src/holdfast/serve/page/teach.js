import {$, bar, el, listed, look, percent, say, tell, written} from "./elements.js";
import {attempt, json, now, teaches, view} from "./service.js";

const LONGEST = 1600;  // side of a picture that is sent
let questions = [], current = null;
const originals = new Map();  // by ticket: the picture as it was given

const takesPictures = () => now.state.shape.length === 3 && [1, 3].includes(now.state.shape[0]) && !now.state.takes_floats;

export function drawTeach() {
  $("give-picture").hidden = !takesPictures();
  $("give-values").hidden = takesPictures();
  $("waiting").hidden = !teaches();
  $("values-shape").textContent = now.state.shape.length ? `(${now.state.shape.join(" × ")})` : "";
}

// ---- what waits

export async function refreshQueue() {
  if (!teaches()) return;
  const found = await attempt(() => json("v1/questions"));
  questions = found ?? questions;
  if (found) $("no-queue").hidden = false;
  if (current && current.ticket !== null && !questions.some(each => each.ticket === current.ticket)) current = null;
  if (!current && questions.length) choose(questions[0]); else { drawQueue(); $("question").hidden = !current; }
}

const showQueue = listed($("queue"), ticket => {
  const name = el("span", {class: "name"}), share = el("span", {class: "muted"}), sample = el("span", {class: "sample"});
  const button = el("button", {type: "button", onclick: () => choose(questions.find(each => each.ticket === ticket), true)}, sample, name, share);
  return {li: el("li", {}, button), draw: ({samples, answers, least_sure}) => {
    const {label, unknown, probabilities: [best]} = answers[least_sure];
    if (ticket === current?.ticket) button.setAttribute("aria-current", "true"); else button.removeAttribute("aria-current");
    if (!sample.firstChild) sample.append(look(samples[least_sure], ""));
    name.replaceChildren(label === null || unknown ? "Unknown" : `${label}?`, samples.length > 1 ? el("span", {class: "muted"}, ` and ${samples.length - 1} more`) : "");
    share.textContent = best ? percent(best.probability) : "";
  }};
});

const drawQueue = () => showQueue(questions.map(each => [each.ticket, each]));

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
  $("verdict").textContent = !best ? "What is this?" : answer.unknown ? "Unknown" : best.probability < .5 ? `Perhaps ${best.label}?` : String(best.label);
  const note = !teaches() ? "This token may ask, but not teach." : best ? `${answer.unknown ? `Below the threshold: ${best.label}, ` : ""}${percent(best.probability)} sure. Confirm it, or say what it is.` : "No class is known yet: name the first one.";
  $("verdict-note").textContent = (many > 1 ? `Sample ${place + 1} of ${many}. ` : "") + note;
  $("candidates").replaceChildren(...answer.probabilities.slice(0, 9).map(({label, probability}, index) => el("li", {},
    el("button", {type: "button", disabled: !teaches(), onclick: () => teach(label), "aria-label": `${label}, ${percent(probability)}`, "aria-keyshortcuts": index + 1},
      el("kbd", {"aria-hidden": "true"}, index + 1), el("span", {class: "name"}, label), bar(probability), el("span", {class: "value"}, percent(probability))))));
  for (const part of [$("other"), $("keys")]) part.hidden = !teaches();
  if (focus) { $("verdict").focus(); tell(`${$("verdict").textContent} ${$("verdict-note").textContent}`); }
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
  const picture = await createImageBitmap(file).catch(() => null);  // the service says why
  const scale = picture && LONGEST / Math.max(picture.width, picture.height);
  if (!picture || scale >= 1) return file;
  const canvas = Object.assign(document.createElement("canvas"), {width: Math.max(1, picture.width * scale), height: Math.max(1, picture.height * scale)});
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  picture.close();
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

// Each by itself: one that is refused does not keep the others from being asked.
async function askAll(sends) {
  const tickets = [];
  for (const send of sends) tickets.push(await attempt(async () => ask(...await send())));
  const first = tickets.find(ticket => ticket != null);
  if (first === undefined) return;
  questions = await attempt(() => json("v1/questions")) ?? questions;
  const mine = questions.find(each => each.ticket === first);
  if (mine) choose(mine, true);
}

const askFiles = files => askAll(files.map(file => async () => {
  const picture = await modest(file);
  return [{body: picture, headers: {"Content-Type": picture.type.startsWith("image/") ? picture.type : "image/unknown"}}, picture];
}));

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
  if (!text.startsWith("[")) return text.split("\n").map(line => line.split(/[\s,;]+/).filter(Boolean).map(Number)).filter(sample => sample.length);
  const found = JSON.parse(text);
  return Array.isArray(found[0]) && now.state.shape.length === 1 ? found : [found];
}

$("give-values").addEventListener("submit", event => {
  event.preventDefault();
  let samples = [];
  try { samples = samplesIn($("values").value.trim()); } catch { /* said below */ }
  if (samples.length && samples.flat(Infinity).every(Number.isFinite)) askAll(samples.map(sample => () => [{body: {arrays: [sample]}}]));
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

addEventListener("keydown", ({key, target, repeat, ctrlKey, metaKey, altKey}) => {
  if (repeat || ctrlKey || metaKey || altKey || target.closest?.("input:not([type=file]), textarea, dialog")) return;
  if (view() !== "teach" || !current || !teaches()) return;
  const choice = current.answers[current.labels.length].probabilities[Number(key) - 1];
  if (/^[1-9]$/.test(key) && choice) teach(choice.label);
  else if (key.toLowerCase() === "n") setTimeout(() => $("other-name").focus());
  else if (key.toLowerCase() === "s" && questions.length) leave(false);
});
