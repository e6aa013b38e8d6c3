// The table of ideas of the page: its columns, their order, and what opens below a row.

const COLUMNS = [
  ["index", "idea", (i) => i.index, (i) => el("button", { type: "button", title: "show its curves", onclick: () => follow(i) }, i.name), "name"],
  ["standing", "standing", (i) => Object.keys(LOOK).indexOf(i.standing), (i) => [el("span", { class: `chip ${i.standing}` }, i.standing), i.note ? el("div", { class: "soft" }, i.note) : null], ""],
  ["value", "value", (i) => i.value, (i) => i.text.value, "n"],
  ["gain", "against the baseline", (i) => i.gain, (i) => i.words, "proof"],
  ...(data.constraints || []).map((c, n) => [`limit${n}`, c.words, (i) => i.limited[c.metric] ?? null, (i) => i.text.limited[c.metric] ?? "–", "n"]),
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
