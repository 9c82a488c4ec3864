// Names of classes come from anybody: they become text nodes and attributes, never markup.
export const $ = id => document.getElementById(id);

function filled(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== false && value != null) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.map(child => child instanceof Node ? child : document.createTextNode(String(child))));
  return made;
}

export const el = (name, attributes = {}, ...children) => filled(document.createElement(name), attributes, children);
export const svg = (name, attributes = {}, ...children) =>
  filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

// Only what is all is 100%.
export const percent = share => share == null ? "–" : `${share > .99 && share < 1 ? Math.floor(1000 * share) / 10 : Math.round(100 * share)}%`;
export const number = value => value.toLocaleString("en");
export const counted = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;
export const bytes = value => value < 1e6 ? `${Math.round(value / 1e3)} kB` : `${(value / 1e6).toFixed(1)} MB`;

export const clock = seconds => new Date(1000 * seconds).toLocaleString("en", {dateStyle: "medium", timeStyle: "medium"});

export function ago(seconds) {
  const past = Math.max(0, Date.now() / 1000 - seconds);
  if (past < 60) return "just now";
  const units = [[86400, "day"], [3600, "hour"], [60, "minute"]];
  const [size, unit] = units.find(([size]) => past >= size);
  return `${counted(Math.floor(past / size), unit)} ago`;
}

export function bar(share) {
  const fill = el("div", {class: "fill"});
  fill.style.width = `${100 * share}%`;
  return el("div", {class: "track", "aria-hidden": "true"}, fill);
}

const values = sample => (sample.values ?? []).join(", ");

function strip(numbers, alt) {
  const [low, high] = numbers.some(Boolean) ? [Math.min(0, ...numbers), Math.max(0, ...numbers)] : [-1, 1], scale = 24 / (high - low);
  const drawing = svg("svg", {class: "strip", viewBox: `0 0 ${numbers.length} 24`, preserveAspectRatio: "none", role: "img", "aria-label": alt});
  numbers.forEach((value, index) => drawing.append(svg("rect", {
    x: index + .1, width: .8, y: (high - Math.max(0, value)) * scale, height: Math.max(.6, Math.abs(value) * scale)})));
  return drawing;
}

// A sample as a picture, or its values as bars.
export function look(sample, alt) {
  if (sample.image) return el("img", {src: `data:image/png;base64,${sample.image}`, alt});
  const drawing = strip(sample.values ?? [], alt || values(sample));
  drawing.append(svg("title", {}, values(sample)));
  return drawing;
}

export const written = sample => el("p", {class: "numbers"}, values(sample));

// Fills a list again and again. What stays in it is not touched, so that neither focus nor a click is lost.
// `make` gives for a key its element and how to draw an entry in it.
export function listed(list, make) {
  let rows = new Map();
  return entries => {
    rows = new Map(entries.map(([key]) => [key, rows.get(key) ?? make(key)]));
    for (const [key, entry] of entries) rows.get(key).draw(entry);
    const wanted = [...rows.values()].map(row => row.li);
    for (const li of [...list.children]) if (!wanted.includes(li)) li.remove();
    wanted.forEach((li, place) => { if (list.children[place] !== li) list.insertBefore(li, list.children[place] ?? null); });
  };
}

// To a screen reader only. Emptied first, so that the same words are heard again.
export function tell(text) {
  $("heard").textContent = "";
  setTimeout(() => { $("heard").textContent = text; }, 200);
}

let hush;
export function say(text) {
  $("said").textContent = text;
  clearTimeout(hush);
  hush = setTimeout(() => { $("said").textContent = ""; }, 6000);
}
