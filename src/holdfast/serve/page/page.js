import {$, number} from "./elements.js";
import {follow, hasToken, keepToken, now, teaches, view} from "./service.js";
import {drawRate, drawWatch} from "./watch.js";
import {drawTeach, refreshQueue} from "./teach.js";
import {drawUndo} from "./undo.js";

function draw() {
  if (now.state && now.role) ({watch: drawWatch, teach: drawTeach, undo: drawUndo})[view()]();
}

function show() {
  for (const link of document.querySelectorAll("nav a")) {
    const name = link.hash.slice(1), here = view() === name;
    $(`view-${name}`).hidden = !now.state || !now.role || !here;
    if (here) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  $("view-token").hidden = !now.needsToken;
  $("schema").hidden = now.needsToken || hasToken();  // a link cannot carry one
  draw();
  if (now.role && view() === "teach") refreshQueue();
}

function take({state, progress}) {
  const first = !now.state, {step, pending, checkpoints} = now.state ?? {};
  Object.assign(now, {state, progress});
  $("live").classList.add("on");
  $("live-text").textContent = `live · step ${number(state.step)}`;
  document.title = $("name").textContent = state.name === "holdfast" ? "Holdfast" : state.name;
  $("open-count").textContent = state.pending;
  $("open-said").textContent = state.pending && teaches() ? `, ${state.pending} waiting` : "";
  $("open-count").hidden = !state.pending || !teaches();
  if (state.step !== step) drawRate();
  if (first) show();
  else if (view() !== "undo" || state.step !== step || JSON.stringify(state.checkpoints) !== JSON.stringify(checkpoints)) draw();
  if (view() === "teach" && pending !== state.pending) refreshQueue();
}

function lost() {
  $("live").classList.remove("on");
  $("live-text").textContent = "not connected";
}

$("token-form").addEventListener("submit", event => {
  event.preventDefault();
  keepToken($("token").value.trim());
  $("token").value = "";
  follow(take, lost);
});
addEventListener("role", show);
addEventListener("event", ({detail}) => take(detail));
addEventListener("hashchange", () => {
  if (["#watch", "#teach", "#undo"].includes(location.hash)) { show(); scrollTo(0, 0); $(now.needsToken ? "main" : `view-${view()}`).focus({preventScroll: true}); }
});
follow(take, lost);
