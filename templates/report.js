"use strict";
// Texts of the data become text nodes, or are escaped where plotly reads a little markup (`esc`).
const $ = (id) => document.getElementById(id);
let data = JSON.parse($("data").textContent);
const view = { log: false, curvesLog: false, sort: "index", down: false, find: "", standing: "", metric: "", constraint: "", runs: new Set(), open: new Set(), chosen: false, theme: "" };
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

// --- progress ---

const LOOK = { // from back to front: symbol, size, colour, filled, words of the legend
  smoke: ["square-open", 7, "faint", "smoke run"], discarded: ["circle", 8, "faint", "discarded"],
  "better than the baseline, not the best": ["circle-open", 8, "base", "better than the baseline, not the best"],
  out: ["circle", 8, "faint", "out"], "set aside": ["circle-open", 8, "faint", "set aside"],
  "in the tip": ["circle-open", 9, "sure", "in the tip: one run"],
  pending: ["circle-open", 9, "kept", "pending"], demoted: ["triangle-down-open", 11, "demoted", "demoted"],
  baseline: ["square", 10, "base", "baseline"], kept: ["circle", 11, "kept", "kept: search mean"],
  confirmed: ["star", 16, "sure", "confirmed: fresh runs"], "not tried": ["x-thin", 8, "soft", "not tried, at the edge"],
  unmeasured: ["x-thin", 8, "demoted", "unmeasured, at the edge"], crashed: ["x-thin", 8, "bad", "crashed, at the edge"],
};

function layoutOf(x, y, log) {
  const axis = { gridcolor: css("grid"), linecolor: css("rule"), zerolinecolor: css("rule"), automargin: true };
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", uirevision: "kept", hovermode: "closest", dragmode: "zoom",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: css("soft") },
    margin: { l: narrow() ? 40 : 56, r: 12, t: 34, b: 44 },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: css("grey"), activecolor: css("ink") },
    xaxis: { ...axis, showgrid: false, title: { text: esc(x), standoff: 8 } },
    yaxis: { ...axis, type: log ? "log" : "linear", title: { text: narrow() ? "" : esc(y), standoff: 8 } },
    hoverlabel: { bgcolor: css("card"), bordercolor: css("rule"), font: { color: css("ink"), size: 12 }, align: "left", namelength: 0 },
    legend: { orientation: "h", y: narrow() ? -0.22 : -0.16, yanchor: "top", x: 0, font: { size: narrow() ? 10 : 12 } },
  };
}
const narrow = () => innerWidth < 600;
const CONFIG = { displaylogo: false, responsive: true, displayModeBar: narrow() ? false : "hover", modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"] };

function hover(point, off) {
  const idea = data.ideas.find((one) => one.index === point.x) || {};
  const about = [
    ["", point.words], ["", idea.what], ["changes ", idea.changes], ["", idea.reason],
    ["on ", idea.parent], ["took ", idea.time !== "–" && idea.time], ["commit ", idea.commit],
  ];
  const lines = about.filter(([, text]) => text).map(([head, text]) => wrapped(head + text));
  return `<b>${esc(point.name)}</b> · ${esc(point.standing)}${off ? " (off the scale)" : ""}<br>${lines.join("<br>")}`;
}

function drawProgress() {
  const p = data.progress, logged = view.log && canLog();
  const floor = Math.min(...finite(p.points.flatMap((q) => [q.y, q.low, q.selected])).filter((v) => v > 0), p.high);
  const low = logged ? Math.max(p.low, floor * 0.9) : p.low, high = p.high;
  const edge = p.maximize ? low : high, clip = (v) => Math.min(Math.max(v, low), high);
  const last = Math.max(2, ...p.points.map((q) => q.x), ...p.path.map(([x]) => x)) + 0.6;
  const traces = [], line = { hoverinfo: "skip", mode: "lines" };
  if (p.band && p.band.sd) {
    const [a, b] = [clip(p.band.mean - p.band.sd), clip(p.band.mean + p.band.sd)];
    traces.push({ ...line, x: [0.4, last, last, 0.4], y: [a, a, b, b], fill: "toself", fillcolor: css("band"), line: { width: 0 }, name: "baseline ± sd of one run" });
  }
  if (p.band) traces.push({ ...line, x: [0.4, last], y: [p.band.mean, p.band.mean], line: { color: css("base"), width: 1, dash: "dash" }, name: "baseline" });
  if (p.target !== null && p.target >= low && p.target <= high)
    traces.push({ ...line, x: [0.4, last], y: [p.target, p.target], line: { color: css("demoted"), width: 1, dash: "dot" }, name: `target ${num(p.target)}` });
  if (p.path.length) {
    const [xs, ys] = [p.path.map(([x]) => x), p.path.map(([, y]) => y)];
    traces.push({ ...line, x: [...xs, last], y: [...ys, ys.at(-1)], line: { color: css("kept"), width: 2, shape: "hv" }, name: "best so far" });
  }
  const several = p.points.flatMap((q) => q.replicates.length > 1 ? q.replicates.filter((v) => v >= low && v <= high).map((v) => [q.x, v]) : []);
  const dots = (points, marker, name) => points.length && traces.push({
    x: points.map(([x]) => x), y: points.map(([, y]) => y), mode: "markers", hoverinfo: "skip", marker, name });
  dots(several, { size: 4, color: css("grey"), opacity: 0.7 }, "one run of several");
  dots(p.points.filter((q) => q.selected !== null).map((q) => [q.x, clip(q.selected)]), { size: 9, symbol: "circle-open", color: css("soft") }, "search mean (selected)");
  for (const [standing, [symbol, size, colour, name]] of Object.entries(LOOK)) {
    const points = p.points.filter((q) => (q.y === null && !["not tried", "unmeasured"].includes(q.standing) ? "crashed" : q.standing) === standing);
    if (!points.length) continue;
    const off = points.map((q) => q.y !== null && (q.y < low || q.y > high));
    const bars = points.some((q) => q.low !== null) && {
      type: "data", symmetric: false, thickness: 1.6, width: 4, color: css(colour),
      array: points.map((q) => q.high === null ? 0 : clip(q.high) - clip(q.y)), arrayminus: points.map((q) => q.low === null ? 0 : clip(q.y) - clip(q.low)) };
    traces.push({
      x: points.map((q) => q.x), y: points.map((q) => q.y === null ? edge : clip(q.y)), name, cliponaxis: false,
      mode: off.includes(true) ? "markers+text" : "markers", textfont: { size: 10, color: css("soft") }, // at the edge, with its number
      text: points.map((q, n) => off[n] ? `${q.y > high ? "▲" : "▼"} ${num(q.y)}` : ""), textposition: points.map((q) => q.y > high ? "bottom center" : "top center"),
      marker: { symbol, size, color: css(colour), opacity: off.map((o) => o ? 0.5 : 1), line: { width: symbol.includes("thin") || symbol.includes("open") ? 2 : 0, color: css(colour) } },
      error_y: bars || undefined, hovertemplate: points.map((q, n) => `${hover(q, off[n])}<extra></extra>`) });
  }
  const layout = layoutOf("idea, in the order of the attempts", `${p.metric} (${p.better})`, logged);
  layout.xaxis.range = [0.4, last];
  layout.yaxis.range = logged ? [Math.log10(low), Math.log10(high)] : [low, high];
  layout.uirevision = layout.yaxis.uirevision = logged ? "log" : "linear";
  layout.xaxis.uirevision = "kept";
  const words = `${p.metric} over the ideas, ${p.better}`;
  draw("progress-plot", traces, layout, `${words}: ${p.title}. ${(data.outcome || []).slice(1, 2).join("")}`).then((plot) => {
    label(plot);
    if (!plot.labelled) {
      plot.on("plotly_relayout", (change) => { if (!("annotations" in change)) label(plot); });
      plot.labelled = true;
    }
  });
  $("progress-words").textContent = words;
}

function canLog() {
  return finite(data.progress.points.map((q) => q.y)).every((v) => v > 0) && data.progress.points.length > 0;
}

// The names of kept ideas, each at the first free place near its mark: no two overlap, none covers a kept mark.
function label(plot) {
  const { xaxis, yaxis } = plot._fullLayout, [width, height] = [xaxis._length, yaxis._length];
  const logged = yaxis.type === "log", pen = document.createElement("canvas").getContext("2d");
  const size = width < 420 ? 10.5 : 12;
  pen.font = `${size}px ${plot._fullLayout.font.family}`;
  const kept = data.progress.points.filter((p) => p.y !== null && (p.standing === "kept" || p.standing === "confirmed"));
  const at = (v) => Math.min(Math.max(v, data.progress.low), data.progress.high);
  const marks = kept.map((p) => ({ p, x: xaxis.d2p(p.x), y: yaxis.d2p(at(p.y)), top: yaxis.d2p(at(p.high ?? p.y)) }))
    .filter((m) => m.x >= -1 && m.x <= width + 1 && m.y >= -1 && m.y <= height + 1);
  const taken = marks.map((m) => [m.x - 8, m.x + 8, m.y - 8, m.y + 8]);
  const free = ([l, r, t, b]) => l >= 0 && r <= width && t >= -20 && b <= height && !taken.some(([L, R, T, B]) => l < R && r > L && t < B && b > T);
  const annotations = [];
  for (const m of marks.toSorted((a, b) => (b.p.standing === "confirmed") - (a.p.standing === "confirmed") || b.p.x - a.p.x)) {
    const name = width < 420 ? m.p.name.split(" ")[0] : m.p.name;
    const text = name.length > 34 ? `${name.slice(0, 33)}…` : name, w = pen.measureText(text).width + 8, h = size + 5;
    const rows = [...Array(Math.ceil(height / h)).keys()].flatMap((n) => [m.top - 14 - h * n, m.y + 16 + h * n]);
    const spots = rows.flatMap((y) => [0, w / 2 + 4, -w / 2 - 4].map((dx) => [m.x + dx, y]));
    const spot = spots.find(([x, y]) => free([x - w / 2, x + w / 2, y - h / 2, y + h / 2]));
    if (!spot) continue;
    taken.push([spot[0] - w / 2, spot[0] + w / 2, spot[1] - h / 2, spot[1] + h / 2]);
    annotations.push({
      x: m.p.x, y: logged ? Math.log10(at(m.p.y)) : at(m.p.y), ax: spot[0] - m.x, ay: spot[1] - m.y, text: esc(text), showarrow: true,
      arrowhead: 0, arrowwidth: 0.8, arrowcolor: css("grey"), standoff: 6, font: { size, color: css(m.p.standing === "confirmed" ? "sure" : "ink") },
      borderpad: 1, captureevents: false });
  }
  return Plotly.relayout(plot, { annotations });
}

// --- objective and constraints ---

function drawFront() {
  const one = data.constraints.find((c) => c.words === view.constraint) || data.constraints[0], name = one.metric;
  const known = data.ideas.filter((i) => i.value !== null && i.limited[name] !== undefined && i.limited[name] !== null);
  const traces = [], values = known.map((i) => i.value), line = { hoverinfo: "skip", mode: "lines" };
  const front = known.filter((i) => i.front).sort((a, b) => a.limited[name] - b.limited[name]);
  if (front.length) traces.push({ ...line, x: front.map((i) => i.limited[name]), y: front.map((i) => i.value), line: { color: css("sure"), width: 1.5 }, name: "front: no idea beats these in both" });
  if (values.length) traces.push({ ...line, x: [one.bound, one.bound], y: [Math.min(...values), Math.max(...values)], line: { color: css("bad"), width: 1, dash: "dot" }, name: one.words });
  for (const [standing, [symbol, size, colour, words]] of Object.entries(LOOK)) {
    const points = known.filter((i) => i.standing === standing);
    if (points.length) traces.push({
      x: points.map((i) => i.limited[name]), y: points.map((i) => i.value), mode: "markers", name: words.replace(", at the edge", ""),
      marker: { symbol, size, color: css(colour), line: { width: symbol.includes("thin") || symbol.includes("open") ? 2 : 0, color: css(colour) } },
      hovertemplate: points.map((i) => `<b>${esc(i.name)}</b> · ${esc(i.standing)}${i.front ? ", on the front" : ""}<br>${esc(name)} ${esc(i.text.limited[name])}<br>${wrapped(i.words)}<extra></extra>`) });
  }
  const layout = layoutOf(name, `${data.progress.metric} (${data.progress.better})`, false);
  layout.uirevision = one.words;
  const without = data.ideas.length - known.length;
  const words = `${data.progress.metric} against ${name} of ${known.length} ideas; to be kept, ${one.words}` + (without ? `; ${without} have no value of one of them` : "");
  $("front-words").textContent = words;
  draw("front-plot", traces, layout, words);
}

function showFront() {
  $("constraint").replaceChildren(...data.constraints.map((c) => Object.assign(el("option", { value: c.words }, c.words), { selected: c.words === view.constraint })));
  $("constraint").parentNode.hidden = data.constraints.length < 2;
}

// --- curves ---

const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7a68c4", "#8c6d31", "#d6604d", "#1b9e9e"];

function chooseRuns(which) {
  const standing = (run) => ["kept", "confirmed", "baseline", "running"].includes(run.standing);
  view.runs = new Set(data.curves.filter((run) => which === "all" || standing(run)).slice(-300).map((run) => run.run));
}

function fillRuns() {
  const wanted = $("find-run").value.toLowerCase();
  $("runs").replaceChildren(...data.curves
    .filter((run) => `${run.name} ${run.run} ${run.standing} seed ${run.seed}`.toLowerCase().includes(wanted))
    .map((run) => Object.assign(el("option", { value: run.run, title: run.run }, `${run.name} · ${run.seed === null ? run.run : `seed ${run.seed}`}`), { selected: view.runs.has(run.run) })));
}

function drawCurves() {
  const runs = data.curves.filter((run) => view.runs.has(run.run)), having = runs.filter((run) => run.series[view.metric]);
  const ideas = [...new Set(having.filter((run) => run.standing !== "baseline").map((run) => run.index))];
  const many = having.length > 60, seen = new Set();
  const traces = having.map((run) => {
    const base = run.standing === "baseline", first = !seen.has(run.index), { x, y } = run.series[view.metric];
    seen.add(run.index);
    const colour = base ? css("grey") : COLOURS[ideas.indexOf(run.index) % COLOURS.length];
    return {
      x, y, mode: x.length > 1 ? "lines" : "markers", name: esc(run.name), legendgroup: String(run.index), showlegend: first && ideas.length <= 24,
      opacity: many ? 0.45 : 0.9, line: { color: colour, width: many ? 1 : 1.7, dash: base ? "dash" : "solid" }, marker: { color: colour },
      hovertemplate: `<b>${esc(run.name)}</b> · ${esc(run.standing)}<br>${esc(run.run)}<br>step %{x}: %{y:.4g}<extra></extra>` };
  });
  const layout = layoutOf("step", view.metric, view.curvesLog);
  layout.uirevision = `${view.metric} ${view.curvesLog}`;
  const missing = runs.length - having.length;
  const words = `${view.metric} of ${having.length} of ${data.curves.length} runs` + (missing ? `; ${missing} chosen runs do not have it here` : "")
    + (data.unread ? `; ${data.unread} runs are not read yet, and come by themselves` : "");
  $("curves-words").textContent = words;
  draw("curves-plot", traces, layout, words);
}

function showCurves() {
  if (!view.chosen) chooseRuns("kept");
  const metrics = [...new Set(data.curves.flatMap((run) => Object.keys(run.series)))];
  const steps = (name) => Math.max(...data.curves.map((run) => run.series[name]?.x.length ?? 0));
  const longest = metrics.reduce((best, name) => steps(name) > steps(best) ? name : best, metrics[0]); // one dot is no curve
  if (!metrics.includes(view.metric)) view.metric = metrics.includes(data.metric) && steps(data.metric) > 1 ? data.metric : longest;
  $("metric").replaceChildren(...metrics.map((name) => Object.assign(el("option", { value: name }, name), { selected: name === view.metric })));
  fillRuns();
  if (drawn) drawCurves();
}

// --- the settings of the ideas ---

function drawSettings(id, plot, words, drawing) {
  if (!plot) return;
  $(id).querySelector("figcaption").textContent = [words, plot.about].filter(Boolean).join(" ");
  const layout = layoutOf("", "", false), [traces, own] = drawing(plot, layout);
  draw(`${id}-plot`, traces, { ...layout, ...own, margin: { ...layout.margin, t: 24 } }, words);
}

function parallelLines({ axes }, layout) {
  const x = axes.map((_, n) => n), dark = document.documentElement.classList.contains("dark");
  const traces = axes[0].places.map((place, idea) => {
    const good = data.progress?.maximize === false ? 1 - place : place;
    return {
      x, y: axes.map((axis) => axis.places[idea]), mode: "lines", opacity: 0.5, showlegend: false,
      text: axes.map((axis) => esc(`${axis.name}: ${axis.values[idea]}`)), hoverinfo: "text",
      line: { width: 1.2, color: `hsl(203 75% ${dark ? 28 + 45 * good : 85 - 60 * good}%)` },
    };
  });
  const note = { showarrow: false, xanchor: "left", xshift: 3, bgcolor: css("card"), opacity: 0.8, font: { size: 11, color: css("soft") } };
  const range = [-0.2, axes.length - 0.6];
  return [traces, {
    xaxis: { ...layout.xaxis, tickvals: x, ticktext: axes.map((axis) => esc(axis.name)), range, zeroline: false },
    yaxis: { visible: false, range: [-0.08, 1.08], fixedrange: true },
    annotations: axes.flatMap((axis, n) => axis.ticks.map(([y, text]) => ({ ...note, x: n, y, text: esc(text) }))),
    shapes: x.map((n) => ({ type: "line", x0: n, x1: n, y0: 0, y1: 1, line: { color: css("grey"), width: 1 }, layer: "below" })),
  }];
}

function importanceBars({ keys, values }, layout) {
  const bars = { type: "bar", orientation: "h", x: values, y: keys.map(esc), text: values.map((value) => value.toPrecision(2)) };
  const look = { textposition: "outside", cliponaxis: false, hoverinfo: "skip", marker: { color: css("kept") } };
  return [[{ ...bars, ...look }], { yaxis: { ...layout.yaxis, type: "category", autorange: "reversed" }, xaxis: { ...layout.xaxis, showgrid: true } }];
}

// --- the table ---

const COLUMNS = [
  ["index", "idea", (i) => i.index, (i) => el("button", { type: "button", title: "show its curves", onclick: () => follow(i) }, i.name), "name"],
  ["standing", "standing", (i) => Object.keys(LOOK).indexOf(i.standing), (i) => [el("span", { class: `chip ${i.standing}` }, i.standing), i.note ? el("div", { class: "soft" }, i.note) : null], ""],
  ["value", "value", (i) => i.value, (i) => i.text.value, "n"],
  ["gain", "against the baseline", (i) => i.gain, (i) => i.words, "proof"],
  ...(data.constraints || []).map((c, n) => [`limit${n}`, c.words, (i) => i.limited[c.metric] ?? null, (i) => [i.text.limited[c.metric] ?? "–", i.front && n === 0 ? el("div", { class: "soft runs" }, "on the front") : null], "n"]),
  ["minutes", "time", (i) => i.minutes, (i) => i.time, "n"],
  ["what", "what, and why it stands there", (i) => i.what, (i) => [i.what, i.unsaid ? el("div", {}, el("code", {}, parted(i.unsaid))) : null, i.reason ? el("div", { class: "soft" }, i.reason) : null], "text"],
  ["branch", "branch, commit", (i) => i.branch, (i) => [el("code", {}, i.branch), el("div", {}, el("code", { class: "soft" }, i.commit))], "where"],
];

const MAIN = ["index", "standing", "value", "gain", "what"]; // on a phone; what else is known of an idea comes with its "more"
function more(idea) {
  const toggle = ({ target }) => {
    view.open[view.open.has(idea.index) ? "delete" : "add"](idea.index);
    target.setAttribute("aria-expanded", target.closest("tr").classList.toggle("open"));
  };
  return el("td", { class: "more" }, el("button", { type: "button", "aria-expanded": String(view.open.has(idea.index)), onclick: toggle }, "more"));
}

function follow(idea) {
  view.chosen = true;
  view.runs = new Set(data.curves.filter((run) => run.index === idea.index || run.standing === "baseline").map((run) => run.run));
  showCurves();
  $("curves").scrollIntoView({ behavior: "smooth" });
}

let lines = []; // [idea, its row, all of its words]
function fillTable() {
  const best = data.ideas.filter((i) => i.standing === "confirmed").sort((a, b) => b.gain - a.gain)[0];
  lines = data.ideas.map((idea) => [
    idea, el("tr", { class: `${best === idea ? "best" : ""} ${view.open.has(idea.index) ? "open" : ""}` }, COLUMNS.map(([name, head, , cell, kind]) =>
      el("td", { class: `${kind} ${MAIN.includes(name) ? "" : "side"}`, "data-head": head, dir: kind === "n" ? null : "auto" }, cell(idea))), more(idea)),
    [idea.name, idea.slug, idea.standing, idea.what, idea.changes, idea.reason, idea.parent, idea.branch, idea.commit, idea.note].join(" ").toLowerCase()]);
  const standings = [...new Set(data.ideas.map((idea) => idea.standing))];
  $("standing").replaceChildren(el("option", { value: "" }, "all"), ...standings.map((word) => Object.assign(el("option", { value: word }, word), { selected: word === view.standing })));
  order();
}

function order() {
  const [, , key] = COLUMNS.find(([name]) => name === view.sort), sign = view.down ? -1 : 1;
  const compare = (a, b) => {
    const [x, y] = [key(a[0]), key(b[0])];
    if (x === null || y === null) return (x === null) - (y === null) || a[0].index - b[0].index; // what is not known comes last
    return sign * (typeof x === "string" ? x.localeCompare(y, undefined, { numeric: true }) : x - y) || a[0].index - b[0].index;
  };
  const words = view.find.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = lines.filter(([idea, , text]) => (!view.standing || idea.standing === view.standing) && words.every((word) => text.includes(word)));
  const by = COLUMNS.findIndex(([name]) => name === view.sort);
  for (const [, row] of shown) [...row.children].forEach((cell, n) => cell.classList.toggle("by", n === by));
  $("rows").replaceChildren(...shown.sort(compare).map(([, row]) => row));
  $("shown").textContent = `${shown.length} of ${lines.length} shown`;
  $("heads").replaceChildren(...COLUMNS.map(([name, head, , , kind]) => el("th", { scope: "col", class: kind === "n" ? "n" : null, "aria-sort": name === view.sort ? (view.down ? "descending" : "ascending") : null },
    el("button", { type: "button", "data-sort": name, onclick: () => { view.down = name === view.sort && !view.down; view.sort = name; order(); $("heads").querySelector(`[data-sort=${name}]`).focus(); } }, head))));
}

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
  part("edits", data.edits, (edits, card) => card.replaceChildren(list(edits)));
  part("cost", data.cost && [data.cost, data.rules], ([cost, rules], card) => card.replaceChildren(
    table(["what", "spent", "limit"], cost), el("details", {}, el("summary", {}, "The rules it ran under"), list(rules || []))));
  part("cautions", [...(data.cautions || []), ...(data.claims || [])].length ? [data.cautions || [], data.claims || []] : null, ([cautions, claims], card) => card.replaceChildren(list(cautions),
    claims.length ? el("details", {}, el("summary", {}, `${claims.length} verdict${claims.length === 1 ? "" : "s"}`), el("div", { class: "wide" }, table(["idea", "verdict", "why"], claims)),
      el("p", { class: "soft" }, "p is the chance that an idea which changes nothing looks at least so good; it may be no greater than what is needed at that look.")) : ""));
  part("skipped", data.skipped, (skipped, card) => card.replaceChildren(list(skipped.map(([name, why]) => `${name}: ${why}`))));
  part("agent", data.agent, (agent, card) => card.replaceChildren(list(agent), data.findings ? el("p", {}, "What it says of each decided idea, in its own words: ", el("code", {}, data.findings)) : ""));
  part("setup", data.setup, (setup, card) => card.replaceChildren(el("div", { class: "wide" }, table(["what", "how it was"], setup))));
  part("places", data.places && [data.places, data.outputs, data.next, data.remarks], ([places, outputs, next, remarks], card) => card.replaceChildren(el("ul", {},
    Object.entries(places).map(([name, path]) => el("li", {}, `${name}: `, el("code", {}, path))), (outputs || []).map((text) => el("li", { dir: "auto" }, text)),
    el("li", {}, "to run a row again: ", el("code", {}, `autoresearch repro ${data.name}:INDEX.REPLICATE`), " prints what to type; ", el("code", {}, "--run"), " starts it"),
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
  if (data.progress && data.constraints?.length) drawFront();
  if (data.curves?.length) drawCurves();
  drawSettings("parallel", data.parallel, "Each line is an idea, from its result on the left to its settings; darker is better, in dark colours brighter.", parallelLines);
  drawSettings("importance", data.importance, "Which settings explain that an idea is among the better ones (PED-ANOVA, computed by Optuna). Few ideas say little.", importanceBars);
}

function render() {
  document.title = data.subtitle ? `${data.name}: ${data.subtitle}` : data.name;
  words();
  for (const [id, there] of [["progress", data.progress], ["ideas", data.ideas?.length], ["front", data.progress && data.constraints?.length], ["curves", data.curves?.length], ["parallel", data.parallel], ["importance", data.importance]]) $(id).hidden = !there;
  if (data.progress) { $("log").disabled = !canLog(); $("log").title = canLog() ? "" : "a logarithmic axis needs positive values"; }
  if (data.ideas?.length) fillTable();
  if (data.constraints?.length) showFront();
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
$("constraint").onchange = () => { view.constraint = $("constraint").value; drawFront(); };
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
