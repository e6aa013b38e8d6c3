"use strict";
// Texts of the data become text nodes, or are escaped where plotly reads a little markup (`esc`).
const $ = (id) => document.getElementById(id);
let data = JSON.parse($("data").textContent);
const view = { log: false, curvesLog: false, sort: "index", down: false, find: "", standing: "", metric: "", runs: new Set(), open: new Set(), chosen: false, theme: "" };
const system = matchMedia("(prefers-color-scheme: dark)");
let drawn = false; // plotly is there

function el(tag, attributes = {}, ...inside) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node[name] = value;
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...inside.flat().filter((child) => child !== null && child !== undefined));
  return node;
}
const list = (items) => el("ul", {}, items.map((text) => el("li", { dir: "auto" }, text)));
const parted = (text) => text.split(/(?<=[_/=]|\.(?=[a-z]))/).flatMap((part) => [part, el("wbr")]); // where a long name may be broken
const num = (value) => value === null || value === undefined ? "–" : String(+value.toPrecision(4));
const esc = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const finite = (values) => values.filter((value) => value !== null && value !== undefined && isFinite(value));

function wrapped(text, width = 70) { // plotly breaks no lines
  const lines = [""];
  for (const word of String(text).split(" ")) {
    if ((lines.at(-1) + word).length > width && lines.at(-1)) lines.push("");
    lines[lines.length - 1] += `${word.slice(0, 2 * width)} `;
  }
  return lines.map((line) => esc(line.trim())).join("<br>");
}

const before = {}; // what each part showed last: one that is the same is left alone
function part(id, value, build) {
  const empty = value === undefined || value === null || (Array.isArray(value) && !value.length);
  const text = JSON.stringify(value);
  $(id).hidden = empty;
  if (empty || before[id] === text) return;
  before[id] = text;
  build(value, $(id).querySelector(".card"));
}

{% include 'report_plots.js' %}
{% include 'report_table.js' %}

// --- the other parts ---

function table(heads, rows) {
  return el("table", {}, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell) => el("td", { dir: "auto" }, cell === null ? "–" : cell instanceof Node ? cell : String(cell)))))));
}

function words() {
  $("goal").textContent = [data.goal, data.phase, data.stand, data.written && `written ${data.written}`].filter(Boolean).join(" · ");
  $("outcome").replaceChildren(...(data.outcome || []).map((text) => el("p", { dir: "auto" }, text)));
  part("diffs", data.diffs, (diffs, card) => card.replaceChildren(...diffs.map((diff, n) => el("details", { open: n === 0 },
    el("summary", { dir: "auto" }, el("b", {}, diff.name), ` against ${diff.parent}${diff.missing ? ` (${diff.missing})` : ""}`),
    diff.missing ? null : el("pre", { tabindex: 0 }, diff.stat), diff.missing ? null : el("pre", { tabindex: 0 }, diff.lines.map(([kind, text]) => el("span", { class: kind }, text || " ")))))));
  part("tree", data.tree, (tree, card) => { card.firstChild.textContent = tree.join("\n"); });
  part("edits", data.edits, (edits, card) => card.replaceChildren(list(edits)));
  part("cost", data.cost && [data.cost, data.rules], ([cost, rules], card) => card.replaceChildren(
    table(["what", "spent", "limit"], cost), el("details", {}, el("summary", {}, "The rules it ran under"), list(rules || []))));
  part("cautions", [...(data.cautions || []), ...(data.claims || [])].length ? [data.cautions || [], data.claims || []] : null, ([cautions, claims], card) => card.replaceChildren(list(cautions),
    claims.length ? el("details", {}, el("summary", {}, `${claims.length} verdict${claims.length === 1 ? "" : "s"}`), el("div", { class: "wide" }, table(["idea", "verdict", "why"], claims)),
      el("p", { class: "soft" }, "p is the chance that an idea which changes nothing looks at least so good; it may be no greater than what is needed at that look.")) : ""));
  part("skipped", data.skipped, (skipped, card) => card.replaceChildren(list(skipped.map(([name, why]) => `${name}: ${why}`))));
  part("agent", data.agent, (agent, card) => card.replaceChildren(list(agent)));
  part("setup", data.setup, (setup, card) => card.replaceChildren(el("div", { class: "wide" }, table(["what", "how it was"], setup))));
  part("places", data.places && [data.places, data.outputs, data.next, data.remarks], ([places, outputs, next, remarks], card) => card.replaceChildren(el("ul", {},
    Object.entries(places).map(([name, path]) => el("li", {}, `${name}: `, el("code", {}, path))), (outputs || []).map((text) => el("li", { dir: "auto" }, text)),
    el("li", {}, "to run a row again: ", el("code", {}, `autoresearch repro ${data.name}:INDEX.REPLICATE`), " prints what to type"),
    (next || []).filter((text) => !text.startsWith("autoresearch report ")).map((text) => el("li", {}, "next: ", el("code", {}, text))), (remarks || []).map((text) => el("li", { class: "soft" }, text)))));
}

function draw(id, traces, layout, words) {
  const box = $(id);
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", words);
  return Plotly.react(box, traces, layout, CONFIG);
}

function plots() {
  if (!drawn) return;
  if (data.progress) drawProgress();
  if (data.curves?.length) drawCurves();
}

function render() {
  document.title = data.subtitle ? `${data.name}: ${data.subtitle}` : data.name;
  words();
  for (const [id, there] of [["progress", data.progress], ["ideas", data.ideas?.length], ["curves", data.curves?.length]]) $(id).hidden = !there;
  if (data.progress) { $("log").disabled = !canLog(); $("log").title = canLog() ? "" : "a logarithmic axis needs positive values"; }
  if (data.ideas?.length) fillTable();
  if (data.curves?.length) showCurves();
  if (drawn) plots();
}

function theme() {
  document.documentElement.classList.toggle("dark", view.theme ? view.theme === "dark" : system.matches);
  $("theme").textContent = { "": "◐ auto", dark: "● dark", light: "○ light" }[view.theme];
  $("theme").setAttribute("aria-label", `colours: ${view.theme || "as the system has them"}`);
  plots();
}

function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

function clock(seconds) { // of the reader, with the day unless it is today
  const time = new Date(seconds * 1000), day = time.toDateString() === new Date().toDateString() ? "" : `${time.toLocaleDateString("en-CA")} `;
  return day + time.toLocaleTimeString("en-GB");
}

let tag = "";
async function poll() {
  try {
    const answer = await fetch("data.json", { cache: "no-store", headers: tag ? { "If-None-Match": tag } : {} });
    if (answer.status !== 304) {  // not as it was
      if (!answer.ok) throw new Error(answer.status);
      data = await answer.json();
      tag = answer.headers.get("ETag");
      render();
    }
    notice(`Live: ${data.trouble || `the records last changed at ${clock(data.changed)}, and were read at ${clock(data.read)}`}.`);
  } catch {
    notice(`The server is gone, or refuses this address: what you see ${data.read ? `was read at ${clock(data.read)}` : "is from when the page was opened"}.`);
  }
  setTimeout(poll, 5000);
}

async function unpack() {
  if (typeof DecompressionStream === "undefined") {
    notice("This browser is too old to draw the plots (Chrome 80, Firefox 113 and Safari 16.4 can); the words and tables are all here.");
    return;
  }
  const bytes = Uint8Array.from(atob($("plotly").textContent), (sign) => sign.charCodeAt(0));
  const source = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  document.body.append(Object.assign(el("script"), { nonce: document.querySelector("script[nonce]").nonce, textContent: source }));
  drawn = true;
  plots();
}

$("log").onclick = () => { view.log = !view.log; $("log").setAttribute("aria-pressed", view.log); drawProgress(); };
$("curves-log").onclick = () => { view.curvesLog = !view.curvesLog; $("curves-log").setAttribute("aria-pressed", view.curvesLog); drawCurves(); };
$("find").oninput = () => { view.find = $("find").value; order(); };
$("standing").onchange = () => { view.standing = $("standing").value; order(); };
$("metric").onchange = () => { view.metric = $("metric").value; drawCurves(); };
$("find-run").oninput = fillRuns;
$("runs").onchange = () => {
  view.chosen = true;
  for (const option of $("runs").options) view.runs[option.selected ? "add" : "delete"](option.value);
  drawCurves();
};
for (const button of document.querySelectorAll("[data-runs]")) button.onclick = () => { view.chosen = true; chooseRuns(button.dataset.runs); showCurves(); };
$("theme").onclick = () => { view.theme = { "": system.matches ? "light" : "dark", light: system.matches ? "dark" : "", dark: system.matches ? "" : "light" }[view.theme]; theme(); };
system.onchange = theme;
addEventListener("beforeprint", () => {
  for (const one of document.querySelectorAll("details")) one.open = true;
  for (const svg of document.querySelectorAll(".main-svg")) svg.setAttribute("viewBox", `0 0 ${svg.width.baseVal.value} ${svg.height.baseVal.value}`); // so that paper scales it
});
addEventListener("afterprint", () => { for (const svg of document.querySelectorAll(".main-svg")) svg.removeAttribute("viewBox"); });
theme();
render();
unpack();
if (data.live) poll();
