import {$, say} from "./elements.js";

const TOKEN = "holdfast-token";

export const now = {state: null, progress: null, role: null, needsToken: false};
export const teaches = () => ["teach", "administer"].includes(now.role);
export const administers = () => now.role === "administer";
export const view = () => ["watch", "teach", "undo"].find(name => location.hash === `#${name}`) ?? "watch";

export class Refused extends Error {
  constructor(status, why) { super(why); this.status = status; }
}

export async function call(path, {body, headers = {}, method = body === undefined ? "GET" : "POST"} = {}) {
  const token = sessionStorage.getItem(TOKEN), plain = body !== undefined && !(body instanceof Blob);
  const all = {...headers, ...(token && {Authorization: `Bearer ${token}`}), ...(plain && {"Content-Type": "application/json"})};
  const response = await fetch(path, {method, headers: all, body: plain ? JSON.stringify(body) : body});
  if (response.ok) return response;
  const why = (await response.json().catch(() => ({}))).error ?? response.statusText;
  if (response.status === 401) needToken(token ? "This token is not known here." : "");
  throw new Refused(response.status, why);
}

export const json = async (path, options) => (await call(path, options)).json();

// Undefined if it was refused; then that has been said.
export async function attempt(work) {
  try { return await work(); } catch (error) {
    if (error instanceof Refused) say(error.message);
    else { console.error(error); say("The service does not answer."); }
    return undefined;
  }
}

function needToken(why) {
  now.role = null;
  now.needsToken = true;
  $("token-error").textContent = why;
  dispatchEvent(new Event("role"));
  $("token").focus();
}

export const hasToken = () => sessionStorage.getItem(TOKEN) !== null;

export function keepToken(token) {
  sessionStorage.setItem(TOKEN, token);
  now.needsToken = false;
}

// Calls `take` with each event until the token is refused.
export async function follow(take, lost) {
  for (let pause = 1000; ; pause = Math.min(2 * pause, 15000)) {
    try {
      now.role ??= (await json("v1/role")).role;
      dispatchEvent(new Event("role"));
      const reader = (await call("v1/events")).body.pipeThrough(new TextDecoderStream()).getReader();
      for (let text = "", part; !(part = await reader.read()).done; pause = 1000) {
        const events = (text + part.value).split("\n\n");
        text = events.pop();
        const data = events.filter(event => event.startsWith("data: ")).pop();
        if (data) take(JSON.parse(data.slice(6)));
      }
    } catch (error) {
      if (error instanceof Refused && error.status === 401) return;
    }
    lost();
    await new Promise(done => setTimeout(done, pause));
  }
}
