import {$, ago, clock, counted, el, listed, number, say} from "./elements.js";
import {administers, attempt, json, now} from "./service.js";

let known = [];

export async function drawUndo() {
  drawCheckpoints();
  known = await attempt(() => json("v1/classes")) ?? known;
  drawForgettable();
}

const showCheckpoints = listed($("checkpoints"), name => {
  const what = el("p", {}), note = el("p", {class: "note"});
  const button = el("button", {type: "button", "aria-label": `Go back to step ${name}`}, "Go back");
  const li = el("li", {}, el("div", {class: "grow"}, what, note), button);
  return {li, draw: each => {
    what.textContent = `Step ${number(each.step)}`;
    note.textContent = `${clock(each.time)} · kept ${ago(each.time)}`;
    button.onclick = () => goBack(each);
    button.disabled = !administers();
  }};
});

function drawCheckpoints() {
  $("keep").disabled = !administers();
  showCheckpoints(now.state.checkpoints.map(each => [each.name, each]));
}

const showForgettable = listed($("forgettable"), label => {
  const note = el("p", {class: "note"});
  const button = el("button", {type: "button", class: "danger quiet", "aria-label": `Forget ${label}`, onclick: () => forget(label)}, "Forget");
  const li = el("li", {}, el("div", {class: "grow"}, el("p", {class: "name", title: label}, label), note), button);
  return {li, draw: each => {
    note.textContent = `${number(each.in_memory)} held`;
    button.disabled = !administers();
  }};
});

function drawForgettable() {
  const part = $("find-class").value.trim().toLowerCase();
  $("find").hidden = known.length <= 12;
  showForgettable(known.filter(each => String(each.label).toLowerCase().includes(part)).map(each => [each.label, each]));
}

function isSure(title, text, yes) {
  $("sure-title").textContent = title;
  $("sure-text").textContent = text;
  $("sure-yes").textContent = yes;
  $("sure").returnValue = "no";
  $("sure").showModal();
  $("sure").focus();  // a screen reader then reads what is asked
  return new Promise(done => $("sure").addEventListener("close", () => done($("sure").returnValue === "yes"), {once: true}));
}

async function change(work) {
  await attempt(async () => {
    const said = await work();
    dispatchEvent(new CustomEvent("event", {detail: {state: await json("v1/state"), progress: await json("v1/progress")}}));
    say(said);
  });
  if (document.activeElement === document.body) $("view-undo").focus();  // its button cannot be used any more
}

async function goBack({name, step, time}) {
  const text = `The learner becomes what it was on ${clock(time)}. The present state, step ${number(now.state.step)}, is kept.`;
  if (!await isSure(`Go back to step ${number(step)}?`, text, "Go back")) return;
  await change(async () => {
    await json("v1/roll-back", {body: {step: name}});
    return `Back at step ${number(step)}.`;
  });
}

async function forget(label) {
  if (!await isSure(`Forget ${label}?`, "Its samples, its name and every kept state are erased. This cannot be undone.", "Forget it")) return;
  await change(async () => {
    const {samples} = await json("v1/forget", {body: {label}});
    return `Forgot ${label} and ${counted(samples, "sample")} of it.`;
  });
}

$("find-class").addEventListener("input", drawForgettable);
$("keep").addEventListener("click", () => change(async () => {
  const {step} = await json("v1/checkpoints", {method: "POST"});
  return `Step ${number(step)} is kept.`;
}));
