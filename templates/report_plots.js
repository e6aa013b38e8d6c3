// Plots of the page: the progress of the campaign, and the curves of runs.

// --- progress ---

const LOOK = { // from back to front: symbol, size, colour, filled, words of the legend
  "not judged": ["square-open", 7, "faint", "not judged"], discarded: ["circle", 8, "faint", "discarded"],
  "better than the baseline, not the best": ["circle-open", 8, "base", "better than the baseline, not the best"],
  out: ["circle", 8, "faint", "out"], "set aside": ["circle-open", 8, "faint", "set aside"],
  "in the tip": ["circle-open", 9, "sure", "in the tip: one run"],
  pending: ["circle-open", 9, "kept", "pending"], demoted: ["triangle-down-open", 11, "demoted", "demoted"],
  baseline: ["square", 10, "base", "baseline"], kept: ["circle", 11, "kept", "kept: search mean"],
  confirmed: ["star", 16, "sure", "confirmed: fresh runs"], "not tried": ["x-thin", 8, "soft", "not tried, at the edge"],
  screened: ["x-thin", 8, "soft", "screened, at the edge"],
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
    const points = p.points.filter((q) => (q.y === null && !["not tried", "screened", "unmeasured"].includes(q.standing) ? "crashed" : q.standing) === standing);
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
