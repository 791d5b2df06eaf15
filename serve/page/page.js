"use strict";
const $ = id => document.getElementById(id);
const text = (id, s) => { const e = $(id); s = shownText(s); if (e.textContent !== s) e.textContent = s; };
// Characters that do not print, or turn the direction of what follows, are written as escapes.
const printable = s => s.replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g, c => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
const shownText = x => typeof x === "string" ? printable(x) : x;
const el = (name, attributes, ...children) => {
  const e = document.createElement(name);
  for (const k in attributes) e.setAttribute(k, k === "title" || k === "aria-label" ? shownText(attributes[k]) : attributes[k]);
  e.append(...children.map(shownText));
  return e;
};
const explained = (word, what) => el("dfn", {title: what}, word);
const none = "–";
const whole = n => n == null ? none : Math.round(n).toString().replace(/\B(?=(\d{3})+$)/g, ",");
const short = n => n == null ? none : n >= 1e9 ? (n / 1e9).toPrecision(3) + " G" : n >= 1e6 ? (n / 1e6).toPrecision(3) + " M" : n >= 1e4 ? (n / 1e3).toPrecision(3) + " k" : n >= 10 || n % 1 === 0 ? whole(n) : n.toPrecision(2);
const fixed = (x, digits) => x == null ? none : x.toFixed(digits);
const percent = x => x == null ? none : (100 * x).toFixed(100 * x < 9.95 ? 2 : 1) + " %";
// How an error is shown: a share, or of numbers in the target's own unit.
const own = x => x == null ? none : Math.abs(x) >= 1000 && Math.abs(x) < 1e7 ? x.toFixed(0) : x.toPrecision(4);
const errorOf = s => s.numbers ? own : percent;
// What predictors that know the labels alone would have lost.
const baselinesOf = ({baselines: b = {}}) => (b.baseline_majority_error == null ? "" : ` · majority class ${percent(b.baseline_majority_error / 100)}`) +
  (b.baseline_prior_log_loss == null ? "" : ` · class frequencies ${fixed(b.baseline_prior_log_loss, 4)} nats`) +
  (b.baseline_last_error == null ? "" : ` · last label ${percent(b.baseline_last_error / 100)}`) +
  (b.baseline_mean_mae == null ? "" : ` · mean ${own(b.baseline_mean_mae)}`) + (b.baseline_last_mae == null ? "" : ` · last label ${own(b.baseline_last_mae)}`) +
  (b.model_error == null ? "" : ` · model alone ${percent(b.model_error / 100)}`) + (b.model_mae == null ? "" : ` · model alone ${own(b.model_mae)}`);
// A share in percent, of small ones two digits.
const share = x => (x < .1 ? +(100 * x).toPrecision(2) : Math.round(100 * x)) + " %";
const precise = x => x == null ? none : Math.abs(x) >= 1e5 || x !== 0 && Math.abs(x) < 1e-3 ? x.toExponential(3) : +x.toPrecision(6) + "";
const bytes = n => n < 1024 ? n + " B" : n < 1 << 20 ? (n / 1024).toFixed(1) + " KiB" : n < 1 << 30 ? (n / (1 << 20)).toFixed(1) + " MiB" : (n / (1 << 30)).toFixed(1) + " GiB";
const span = s => s < 1 ? "now" : s < 120 ? Math.round(s) + " s" : s < 7200 ? Math.round(s / 60) + " min" : s < 172800 ? Math.round(s / 3600) + " h" : Math.round(s / 86400) + " d";
// release writes a version: which start of the learner, and which model since then.
const release = v => Math.floor(v / 2 ** 32) + "." + v % 2 ** 32;
const clock = t => new Date(t).toLocaleTimeString([], {hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false});

// Charts are drawn by uPlot. Those over time share the time that they show.
const plots = {};
let shown = 0, zoom = null; // seconds back from now, 0 for all; or [from, to] in milliseconds
const color = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const markColors = {start: "--c", stop: "--faint", drift: "--warn", field: "--bad", promoted: "--b"};

// span of time that the charts over time show, null for all of it.
function timeShown() {
  if (zoom) return zoom;
  const last = points.length ? points[points.length - 1].t : 0;
  return shown ? [last - 1000 * shown, last] : null;
}

// chart draws lines over x. o: series [{name, color, dash, faint, width, points [[x, y]]}], x, y and tip write a value.
function chart(id, o) {
  const box = $(id);
  if (!o.series.some(s => s.points.filter(p => p[1] != null).length > 1)) {
    if (plots[id]) { plots[id].plot.destroy(); delete plots[id]; }
    if (!box.querySelector(".empty")) box.replaceChildren(el("div", {class: "empty"}, o.empty || "Waiting for events."));
    delete box.dataset.series;
    return;
  }
  const xs = [...new Set(o.series.flatMap(s => s.points.map(p => p[0])))].sort((a, b) => a - b);
  const data = [xs, ...o.series.map(s => { const m = new Map(s.points); return xs.map(x => m.has(x) ? m.get(x) : o.join ? undefined : null); })];
  const height = o.height || (innerWidth <= 760 ? 180 : 200), width = box.clientWidth || 500;
  const key = JSON.stringify([o.series.map(s => [s.name, s.color, s.dash, s.faint, s.width]), height, matchMedia("(prefers-color-scheme: dark)").matches]);
  box.dataset.series = o.series.length;
  box.dataset.points = xs.length;
  if (plots[id] && plots[id].key === key) {
    plots[id].o = o;
    if (plots[id].plot.width !== width) plots[id].plot.setSize({width, height});
    plots[id].plot.setData(data);
    return;
  }
  if (plots[id]) plots[id].plot.destroy();
  const held = plots[id] = {key, o};
  const tip = el("div", {class: "tip", hidden: ""});
  box.replaceChildren(tip);
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", o.label);
  const axis = {stroke: color("--soft"), grid: {stroke: color("--grid"), width: 1}, ticks: {show: false}, font: "11.5px system-ui, sans-serif"};
  held.plot = new uPlot({
    width, height, padding: [8, 22, 0, 0], legend: {show: false},
    cursor: {points: {size: 6}, drag: {x: true, y: false, setScale: false}, y: false, bind: {dblclick: () => () => { if (held.o.time) look(0, null); }}},
    scales: {
      x: {time: false, range: (u, low, high) => held.o.range || held.o.time && timeShown() || (low === high ? [low, low + 1] : [low, high])},
      y: {range: (u, low, high) => held.o.signed ? held.o.signed : [0, ceiling(u, held.o)]},
    },
    axes: [
      {...axis, size: 24, space: height < 150 ? 50 : 90, grid: {show: false}, values: (u, values) => ticks(values, held.o.x), splits: o.time ? (u, i, low, high) => timeMarks(low, high, u.width < 420 ? 3 : 5) : o.marks ? () => o.marks : undefined},
      {...axis, size: 52, space: height < 150 ? 22 : 36, values: (u, values) => ticks(values, held.o.y)},
    ],
    series: [{}, ...o.series.map(s => ({stroke: s.faint ? color("--faint") : color(s.color), width: s.width || 2, dash: s.dash ? [6, 4] : undefined, alpha: s.faint ? .6 : 1, points: {show: !!s.dots, size: 6, fill: color(s.color)}, spanGaps: !!o.join}))],
    hooks: {
      drawClear: [u => { if (held.o.time) drawMarks(u); }],
      draw: [u => { if (held.o.counts) drawCounts(u, held.o.counts); }],
      setSelect: [u => {
        if (held.o.time && u.select.width > 3) look(0, [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")]);
        if (u.select.width) u.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
      }],
      setCursor: [u => {
        const i = u.cursor.idx;
        tip.hidden = i == null || u.cursor.left < 0;
        if (tip.hidden) return;
        tip.replaceChildren(held.o.x(u.data[0][i]));
        held.o.series.forEach((s, k) => { const y = u.data[k + 1][i]; if (y != null) tip.append(el("br", {}), s.name + " ", el("b", {}, held.o.tip(y))); });
        if (held.o.time) for (const m of marks) if (Math.abs(u.valToPos(m.t, "x") - u.cursor.left) < 6) tip.append(el("br", {}), m.text);
        tip.style.left = Math.max(0, Math.min(u.cursor.left + 62, u.width - tip.offsetWidth - 4)) + "px";
      }],
    },
  }, data, box);
  box.append(tip);
}

// ceiling is the highest value worth showing of what is in view: the first moments of a run, far above all others, are
// cut, and nothing that came later.
function ceiling(u, o) {
  const [low, high] = o.range || o.time && timeShown() || [-Infinity, Infinity];
  let most = 0, later = 0;
  for (let k = 1; k < u.data.length; k++) {
    const seen = u.data[k].filter((y, i) => y != null && u.data[0][i] >= low && u.data[0][i] <= high), first = seen.length > 40 ? Math.ceil(.03 * seen.length) : 0;
    most = Math.max(most, ...seen);
    later = Math.max(later, ...seen.slice(first));
  }
  return Math.max(o.time && later > 0 ? Math.min(most, 1.6 * later) : most, o.least || 0) * 1.05 || 1;
}

// drawCounts writes [x, y, text] at points.
function drawCounts(u, counts) {
  u.ctx.fillStyle = color("--soft");
  u.ctx.font = 11 * devicePixelRatio + "px system-ui, sans-serif";
  for (const [x, y, text] of counts) {
    const left = u.valToPos(x, "x", true), right = left + u.ctx.measureText(text).width > u.bbox.left + u.bbox.width - 8 * devicePixelRatio;
    u.ctx.textAlign = right ? "right" : "left";
    u.ctx.fillText(text, left + (right ? -7 : 7) * devicePixelRatio, u.valToPos(y, "y", true) + (right ? 16 : 12) * devicePixelRatio);
  }
}

function drawMarks(u) {
  for (const m of marks) {
    const x = u.valToPos(m.t, "x", true);
    if (!(x >= u.bbox.left && x <= u.bbox.left + u.bbox.width)) continue;
    u.ctx.fillStyle = color(markColors[m.kind] || "--faint");
    u.ctx.globalAlpha = .7;
    u.ctx.fillRect(x - devicePixelRatio, u.bbox.top, 2 * devicePixelRatio, u.bbox.height);
    u.ctx.globalAlpha = 1;
  }
}

// look shows the last so many seconds, 0 for all, or a span.
function look(seconds, between) {
  shown = seconds; zoom = between;
  for (const b of document.querySelectorAll("#ranges button")) b.setAttribute("aria-pressed", String(!zoom && +b.dataset.range === shown));
  draw();
}
for (const b of document.querySelectorAll("#ranges button")) b.addEventListener("click", () => look(+b.dataset.range, null));

// ticks writes the values of an axis so that they differ.
function ticks(values, write) {
  const known = values.filter(v => v != null);
  let labels = values.map(v => v == null ? "" : write(v));
  for (let digits = 5; digits < 16 && new Set(labels).size < new Set(known).size; digits++) labels = values.map(v => v == null ? "" : +v.toPrecision(digits) + "");
  return labels;
}
function timeMarks(a, b, n) {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400].map(s => s * 1000);
  const step = steps.find(s => (b - a) / s <= n) || Math.ceil((b - a) / n / 86400000) * 86400000;
  const shift = new Date(a).getTimezoneOffset() * 60000, out = [];
  for (let t = Math.ceil((a - shift) / step) * step + shift; t <= b; t += step) out.push(t);
  return out;
}
function legend(id, series) {
  $(id).replaceChildren(...series.map(s => el("span", {}, el("i", {class: s.dash ? "dash" : "", style: ""}), s.name)));
  [...$(id).querySelectorAll("i")].forEach((e, i) => { e.style.borderColor = `var(${series[i].color})`; e.style.opacity = series[i].faint ? .45 : 1; });
}

// What has come so far.
let points = [], marks = [], now = null, heard = 0, reports = [], measures = null;

function add(p) {
  const last = points[points.length - 1];
  if (last && p.t <= last.t) return;
  points.push(p);
  if (points.length > 1200) points = points.filter((_, i) => i % 2 === points.length % 2);
}
function rates() {
  return points.map((p, i) => {
    // Over five points, so that batches do not look like bursts.
    const q = points[Math.max(0, i - 5)];
    return [p.t, i === 0 || p.t === q.t || p.records < q.records ? null : (p.records - q.records) / (p.t - q.t) * 1000];
  });
}

function draw() {
  if (!now) return;
  const s = now, end = s.ended ? points.findIndex(p => p.records === points[points.length - 1].records) : -1;
  if (end >= 0) points = points.slice(0, end + 2); // nothing happens after the end of a file
  const rate = rates(), last = rate.length ? rate[rate.length - 1][1] : null;
  const ready = !s.not_ready;
  const state = $("state"), plain = ["stopped", "stopping", "not started", "on disk"].includes(s.not_ready);
  state.className = "state " + (ready ? "on" : plain ? "wait" : "off");
  text("state", ready ? s.ended ? "ended, serving" : s.started == null ? "predicting" : s.learned + s.unlabeled + s.refused ? "learning" : "waiting for events" : plain ? s.not_ready : "not ready");
  text("why", ready || plain ? s.not_ready === "not started" && s.events ? `A checkpoint with ${whole(s.events)} events is loaded; the source is being opened.` : "" : s.not_ready);
  const title = s.name || [...new Set((s.partitions || []).map(p => p.topic.split("/").pop()))].slice(0, 3).join(", ");
  text("name", title || "blankout");
  document.body.classList.remove("stale");
  const alarmed = s.health ? s.health.fields.filter(f => (f.alarms || []).length) : [];
  const loud = alarmed.flatMap(f => f.alarms);
  $("alarms").replaceChildren(...loud.map(a => el("li", {"data-kind": a.kind}, a.text)).slice(0, 5), ...loud.length > 5 ? [el("li", {}, `and ${loud.length - 5} more: blankout inspect --features`)] : []);
  $("field-alarms").className = "v" + (s.health && s.health.alarms ? " bad" : "");
  text("field-alarms", s.health ? whole(s.health.alarms) : none);
  const worst = loud.map(a => ({field: a.field, price: a.error_after == null ? null : a.error_after - a.error_before})).sort((a, b) => (b.price || 0) - (a.price || 0))[0];
  text("field-alarms-note", worst ? worst.field + (worst.price == null ? "" : ` costs ${worst.price.toFixed(1)} points of error`) : s.health ? `all monitored fields (${whole(s.health.watched)}) are normal` : "");
  const warnings = s.warnings || [];
  if (warnings.map(w => w.text).join("\n") !== [...$("warnings").children].map(e => e.textContent.replace(/^Warning: /, "")).join("\n"))
    $("warnings").replaceChildren(...warnings.map(w => el("li", {"data-kind": w.kind}, "Warning: " + w.text)));
  document.title = (ready || plain ? "" : "! ") + (title ? printable(title) + " · blankout" : "blankout") + (s.error == null ? "" : " · " + errorOf(s)(s.error));
  text("about", s.model ? `${s.model.loss}, noise ${s.noise_level || s.model.noise} · ${s.model.trained} · model ${whole(s.model.events)}` + (s.model.published ? `, published ${span((s.t - s.model.published) / 1000)}${s.t - s.model.published < 1000 ? "" : " ago"}` : "") : "");
  text("events", whole(s.events));
  text("events-note", `${whole(s.features)} features` + (s.unlabeled ? ` · ${whole(s.unlabeled)} unlabeled` : "") +
    (s.labels ? ` · ${whole(s.labels.pending)} wait for a label, ${whole(s.labels.timed_out)} received none, ${whole(s.labels.late_policy)} labels late` : ""));
  text("rate", s.ended ? none : short(last));
  text("rate-note", s.ended ? "the file has ended" : s.started ? "up " + span((s.t - s.started) / 1000) : "");
  const file = s.lag == null && (s.partitions || []).length > 0 && s.partitions.every(p => p.high_water < 0);
  $("lag-tile").hidden = $("lag-card").hidden = file;
  $("rate-card").classList.toggle("wide", file);
  $("lag-tile").parentElement.classList.toggle("eight", file);
  text("lag", short(s.lag));
  text("lag-note", s.newest_age_seconds == null ? (s.lag == null ? "" : "records not learned yet") : "newest event " + (s.newest_age_seconds < 1 ? Math.round(1000 * s.newest_age_seconds) + " ms" : span(s.newest_age_seconds)) + " old");
  $("error").previousElementSibling.textContent = (s.numbers ? "Mean absolute error" : "Error") + ", recent";
  $("loss").previousElementSibling.textContent = (s.numbers ? "Root mean squared error" : "Log-loss") + ", recent";
  text("error", errorOf(s)(s.error));
  text("error-note", "total " + errorOf(s)(s.error_total) + (s.auc == null ? "" : " · AUC " + fixed(s.auc, 4)) + baselinesOf(s));
  const lossOf = s.numbers ? own : x => fixed(x, 4);
  text("loss", lossOf(s.loss));
  text("loss-note", "total " + lossOf(s.loss_total));
  const c = s.checkpoint;
  $("saved").className = "v" + (c.failed ? " warn" : "");
  text("saved", c.at == null ? "none" : s.t - c.at < 1000 ? "now" : span((s.t - c.at) / 1000));
  if (c.at != null && s.t - c.at >= 1000) $("saved").append(el("small", {}, " ago"));
  text("saved-note", c.at == null ? "" : bytes(c.bytes) + ` · learning paused ${(1000 * c.pause_seconds).toFixed(1)} ms` + (c.failed ? ` · ${c.failed} failed` : ""));
  $("drift").className = "v" + (s.drift.alarms ? " warn" : "");
  drawLearners(s);
  text("drift", whole(s.drift.alarms));
  text("drift-note", s.drift.alarms ? `last at event ${whole(s.drift.event)}: ${fixed(s.drift.before, 3)} → ${fixed(s.drift.after, 3)} ${s.numbers ? "deviations of the labels" : "nats"}` : (s.numbers ? "the error" : "log-loss") + " is steady");
  const letters = Object.values(s.dead_letters || {}).reduce((a, b) => a + b, 0);
  const reasons = Object.entries(s.refused_by || {}).sort((a, b) => b[1] - a[1]), refused = reasons.reduce((n, r) => n + r[1], 0);
  $("refused").className = "v" + (s.dead_letter_failures ? " bad" : refused ? " warn" : "");
  text("refused", whole(refused));
  text("refused-note", s.dead_letter_failures ? `dead letters failed ${s.dead_letter_failures} times` : refused ? reasons.map(([reason, n]) => `${reason} ${whole(n)}`).join(", ") + ` · ${whole(letters)} kept since the start` : "no dead letters");

  const recent = {name: "recent", color: "--a"}, total = {name: "since the start", color: "--b", dash: true};
  legend("legend-error", [recent, total]);
  if (s.numbers) {
    text("title-error", "Mean absolute error over time");
    text("title-loss", "Root mean squared error over time");
    text("note-loss", "In the unit of the labels. Large errors count more.");
  }
  chart("chart-error", {time: true, label: s.numbers ? "Mean absolute error over time" : "Error over time", x: clock, y: s.numbers ? v => +v.toPrecision(3) : v => +(100 * v).toPrecision(3) + " %", tip: errorOf(s), series: [
    {...recent, points: points.map(p => [p.t, p.error])}, {...total, points: points.map(p => [p.t, p.error_total])}]});
  chart("chart-loss", {time: true, label: s.numbers ? "Root mean squared error over time" : "Log-loss over time", x: clock, y: v => +v.toPrecision(3), tip: lossOf, series: [{...recent, points: points.map(p => [p.t, p.loss])}]});
  chart("chart-rate", {time: true, label: "Events per second", x: clock, y: short, tip: v => whole(v) + " /s", least: 1, series: [{name: "events", color: "--a", points: rate}]});
  chart("chart-lag", {time: true, label: "Lag", x: clock, y: short, tip: whole, least: 1, empty: "The source does not report its end.", series: [{name: "records behind", color: "--a", points: points.map(p => [p.t, p.lag])}]});
  drawForecast(s);
  drawHealth(s.health);
  drawStream(s);
  text("footer", `blankout ${s.version}` + (s.model ? ` · model version ${release(s.model.version)}` : ""));
}

function drawForecast(s) {
  const report = reports[0], measured = report && report.live && report.live.robustness;
  // Live and exact are compared by one method: the report's, if there is one.
  const series = measured
    ? [["live", report.live, "--a", false], ["exact", report.exact, "--b", true]].map(([name, side, color, dash]) =>
      ({name, color, dash, width: 2.5, points: report.deletions.map((d, i) => [d, side.robustness[i] == null ? null : side.robustness[i] / (s.numbers ? 1 : 100)])}))
    : [];
  if (s.forecast) {
    const of = list => list.map(p => [p.missing, s.numbers ? p.error : p.error / 100]), where = measured ? "while learning, " : "";
    const line = measured ? {color: "--faint", faint: true, width: 1.25} : {color: "--a", width: 2.5};
    series.unshift({...line, name: where + "declared", points: of(s.forecast.declared)}, {...line, ...measured ? {} : {color: "--c"}, name: where + "silent", dash: true, points: of(s.forecast.silent)});
  }
  legend("legend-forecast", series);
  chart("chart-forecast", {label: "Expected error if features go missing", x: v => Math.round(100 * v) + " %", y: s.numbers ? v => +v.toPrecision(3) : v => fixed(100 * v, 0) + " %", tip: errorOf(s), range: [0, .9], height: report && innerWidth > 760 ? 330 : 0, marks: [0, .2, .4, .6, .8], join: true, series});
  text("forecast-note", "Expected error if that fraction of an event’s features is missing: declared (null), and silent (numbers read their mean or 0)" + (measured ? "; current and exact, declared, at the last validation." : ", measured while learning."));
  const experts = (s.experts || []).length > 1 ? s.experts : [];
  $("experts").replaceChildren(...experts.length ? [el("p", {class: "note"}, explained("Experts", "Every noise level has its own weights, and a mixture weight by its loss on recent complete events.")),
    rows(["weights of", "weight", ""], experts.filter(e => !e.corrects).map(e => [e.name, share(e.weight), bars(e.weight)])),
    ...experts.some(e => e.corrects) ? [rows(["their mixture is corrected by", "weight", ""], experts.filter(e => e.corrects).map(e => [e.name, share(e.weight), bars(e.weight)]))] : []] : []);
  const sets = s.sets || [], size = s.numbers ? "width" : "classes", percents = range => range.split("-").map(d => Math.round(100 * d)).join("–") + " %";
  $("policies").replaceChildren(...(s.missing_policies || []).length ? [el("p", {class: "note"}, explained("Missing policies", "The weights of the policies that score an event with missing fields, by the fraction of missing fields: use the fields that are left, rescale their score, impute missing numbers from the other fields, or fill them in and predict as if the event were complete.")),
    rows(["missing", "none", "rescale", "impute", "fill"], s.missing_policies.map(p => [percents(p.missing), share(p.none), share(p.rescale), share(p.impute), share(p.fill)]))] : []);
  $("sets").replaceChildren(...sets.length ? [el("p", {class: "note"}, explained(s.numbers ? "Intervals" : "Sets", "How often the latest sets contained the outcome, and their size, by the fraction of missing fields.")),
    rows(["missing", "held", size], sets.map(x => [percents(x.missing), share(x.recent), Number(x.size.toPrecision(3)).toString()]))] : []);
}

function rows(head, body) {
  return el("table", {}, el("thead", {}, el("tr", {}, ...head.map(h => el("th", {scope: "col"}, h)))), el("tbody", {}, ...body.map(r => el("tr", {}, ...r.map(c => c.nodeName === "TD" ? c : el("td", {}, c))))));
}
function drawStream(s) {
  const list = s.partitions || [];
  const most = 50;
  if (!list.length) $("partitions").replaceChildren(el("div", {class: "empty"}, s.started == null && s.predictions ? "This program does not learn; it follows a model." : "No record read yet."));
  else $("partitions").replaceChildren(rows(["partition", "next offset", "end", "lag", "records"], list.slice(0, most).map(p => [
    p.topic.split("/").pop() + "/" + p.partition + (p.failing ? ": " + p.failing : ""), whole(p.next), p.high_water < 0 ? none : whole(p.high_water), p.high_water < 0 ? none : whole(Math.max(0, p.high_water - p.next)), whole(p.records)])));
  if (list.length > most) $("partitions").append(el("p", {class: "note"}, `and ${list.length - most} more`));
  const counts = [];
  if ((s.classes || []).length) counts.push(rows(["class", "events"], s.classes.map(c => [c.name || "not seen yet", whole(c.events)])));
  const reasons = Object.entries(s.refused_by || {});
  const firsts = Object.entries(measures && measures.refused || {}).filter(([, r]) => r.first);
  if (reasons.length || firsts.length) counts.push(el("div", {}, reasons.length ? rows(["refused, by reason", "records", "kept since the start"], reasons.map(([r, n]) => [r, whole(n), whole((s.dead_letters || {})[r] || 0)])) : "",
    ...firsts.map(([r, of]) => el("p", {class: "note refusal"}, `First record refused for ${r}: ${of.first}`))));
  const p = s.predictions, age = x => x == null ? none : x < 1 ? Math.round(1000 * x) + " ms" : span(x);
  if (p) counts.push(rows(["predictions", ""], [["scored", whole(p.scored)], ["refused", whole(p.refused)], ["lag", whole(p.lag)], ["newest event, when scored", age(p.newest_age_seconds)], ["age of the model used", age(p.staleness_seconds)], ...(p.trouble ? [["trouble", p.trouble]] : [])]));
  if ((s.snapshots || []).length) counts.push(rows(["snapshots to", "published", "newest"], s.snapshots.map(q => [q.place + (q.trouble ? ": " + q.trouble : ""), whole(q.snapshots), q.published == null ? none : age((s.t - q.published) / 1000) + " old"])));
  $("counts").replaceChildren(...counts);
  $("counts").style.marginTop = counts.length ? "14px" : "0";
}

// The fields that are least as they usually are, and what is told of those with an alarm.
function drawHealth(h) {
  $("health").hidden = !h;
  if (!h) return;
  const two = (f, kind, c) => [cell(f, kind, c && percent(c.now)), c ? percent(c.usual) : none];
  const cell = (f, kind, text) => el("td", (f.alarms || []).some(a => a.kind === kind) ? {class: "bad"} : {}, text || none);
  $("health-table").replaceChildren(rows(["field", "missing", "usually", "doubted", "usually", "mean moved by", "error without"], h.fields.map(f => [
    f.field, ...two(f, "missing", f.missing), ...two(f, "doubted", f.doubted),
    cell(f, "mean", f.mean && (f.mean.change < 0 ? "-" : "+") + Math.abs(f.mean.change).toFixed(2)),
    f.error_without == null ? none : f.error_without.toFixed(1) + " %"])));
  text("health-note", (h.watched > h.fields.length ? `The worst ${h.fields.length} of ${whole(h.watched)} fields. ` : "") +
    "“Now” covers about 1,000 events or the time since the alarm began, “usually” about 100,000. Means move in usual deviations.");
}

// chosen is the id of the report that is looked at, "" for the newest.
// otherReport is that of the one beside it, "" for none.
let chosenReport = "", otherReport = "", opened = {};

function drawReport() {
  const choose = $("report");
  choose.hidden = reports.length < 2;
  const ids = reports.map(r => r.id).join();
  if (choose.dataset.ids !== ids) {
    choose.dataset.ids = ids;
    choose.replaceChildren(...reports.map((r, i) => el("option", {value: i ? r.id : ""}, (i ? "" : "newest: ") + `${whole(r.records)} records, ${clock(r.time)}`)));
    choose.value = chosenReport;
    if (choose.selectedIndex < 0) choose.value = chosenReport = "";
    $("report-other").replaceChildren(el("option", {value: ""}, "compare with …"), ...reports.map(r => el("option", {value: r.id}, `${whole(r.records)} records, ${clock(r.time)}`)));
    $("report-other").value = otherReport;
    if ($("report-other").selectedIndex < 0) $("report-other").value = otherReport = "";
  }
  $("report-other").hidden = choose.hidden;
  const r = chosenReport ? opened[chosenReport] : reports[0];
  $("exact-card").hidden = !r || !r.live || !r.exact;
  if ($("exact-card").hidden) return;
  const relative = r.relative_gap, box = $("exact");
  const numbers = r.live.mae !== undefined;
  const pct = numbers ? own : x => x == null ? none : x.toFixed(2) + " %";
  const other = otherReport && otherReport !== r.id && opened[otherReport] || null;
  const sides = other ? [r.live, r.exact, other.live, other.exact] : [r.live, r.exact];
  const line = (name, get, write) => [name, ...sides.map(s => write(get(s)))];
  // Of a whole report, where two are compared: the number stands under its first side.
  const both = (name, get, write) => other ? [[name, write(get(r)), "", write(get(other)), ""]] : [];
  box.replaceChildren(
    el("div", {class: "gap"}, relative == null ? precise(r.gap) : own(100 * Math.abs(relative)) + " %", el("small", {}, (relative < 0 ? " below the " : " above the "), explained("exact objective", "Training minimizes the objective: the expected losses under the noise plus the penalty of large weights. The exact objective is its minimum, computed by a batch solver on the same events."))),
    el("div", {class: "scroll"}, rows(["", "live", "exact", ...(other ? [`live, ${clock(other.time)}`, `exact, ${clock(other.time)}`] : [])], [
      line("objective", s => s.objective, precise),
      ...(numbers ? [line("RMSE, " + (r.measured_on || "holdout"), s => s.rmse, own), line("MAE", s => s.mae, own), line("R²", s => s.r2, x => fixed(x, 4))] :
        [line("error, " + (r.measured_on || "holdout"), s => s.error, pct), line("log-loss", s => s.log_loss, x => fixed(x, 4)), line("calibration error", s => s.calibration_error, x => fixed(x, 4))]), line(explained("|w|", "The length of the weight vector."), s => s.norm, precise),
      ...both("above exact", x => x.relative_gap, x => x == null ? none : own(100 * x) + " %"), ...both("records", x => x.records, whole)])),
    r.alarm ? el("p", {class: "note", id: "validation-alarm"}, "Alarm: " + r.alarm + ".") : "",
    r.summary ? el("p", {class: "note", id: "summary"}, r.summary[0].toUpperCase() + r.summary.slice(1) + ".") : "",
    el("p", {class: "note"}, r.converged ? "" : "Not converged. ", ...(r.certificate == null ? [] : [explained("Certificate", "An upper bound of the distance from the exact objective to the minimum, proven by a dual solution."), ` ${r.certificate.toExponential(0)}. `]), `Cosine of the weights ${fixed(r.cosine, 4)}. ` +
      `${r.source === "sample" ? "A sample of " : ""}${whole(r.records_read)} records${r.verified ? ", the very ones learned" : `${r.source === "log" ? " read again" : ""}, ${share(r.coverage)} of those learned`}; ${r.seconds.toFixed(1)} s, ${clock(r.time)}.`));
  const trend = reports.filter(x => x.relative_gap != null).map(x => [Date.parse(x.time), x.relative_gap]).reverse();
  if (trend.length > 1) {
    box.append(el("p", {class: "note"}, "Objective minus the exact one, at each validation:"), el("div", {class: "chart", id: "chart-gap"}));
    chart("chart-gap", {time: true, label: "Gap over time", height: 130, x: clock, y: v => +(100 * v).toPrecision(2) + " %", tip: percent, series: [{name: "gap", color: "--a", points: trend}]});
  }
  if (now) drawForecast(now);
  drawFailures((r.failures || []).slice(0, 12), pct, numbers ? own : x => x.toFixed(2));
}

// The single points of failure; one that is chosen is looked at more closely.
function drawFailures(failures, error, rise) {
  $("failures").hidden = !failures.length;
  const key = JSON.stringify([failures, now && now.without]), table = $("failures-table");
  if (table.dataset.key === key) return; // who has come here by the keyboard stays
  table.dataset.key = key;
  const worst = Math.max(...failures.map(f => f.rise), 1e-9);
  table.replaceChildren(rows(["if this dies", "kind", "in events", "error", "rise", ""], failures.map(f => {
    const name = now && now.without ? el("button", {type: "button", "aria-expanded": "false", "aria-controls": "without"}, f.name) : f.name;
    return [name, f.kind, Math.round(100 * f.fraction) + " %", error(f.live), (f.rise >= 0 ? "+" : "") + rise(f.rise), bars(Math.max(0, f.rise / worst))];
  })));
  if (!now || !now.without) return;
  [...table.querySelectorAll("tbody tr")].forEach((row, i) => {
    const f = failures[i];
    row.dataset.name = f.name;
    row.dataset.kind = f.kind;
    row.addEventListener("click", () => readWithout(gone && gone.kind === f.kind && gone.name === f.name ? null : f));
  });
  drawWithout();
}

// What the error comes to without something, as the server has worked it out: {kind, name, answer or error}.
let gone = null;
async function readWithout(f) {
  const asked = gone = f && {kind: f.kind, name: f.name};
  drawWithout();
  if (!f) return;
  try {
    const answer = await fetch(`v1/without?kind=${f.kind}&name=${encodeURIComponent(f.name)}`), body = await answer.json();
    if (answer.ok) asked.answer = body; else asked.error = body.error;
  } catch (e) { asked.error = "no connection"; }
  if (gone === asked) drawWithout();
}
function drawWithout() {
  for (const row of document.querySelectorAll("#failures-table tr[data-name]")) {
    const chosen = gone !== null && row.dataset.name === gone.name && row.dataset.kind === gone.kind;
    row.className = chosen ? "chosen" : "";
    row.querySelector("button").setAttribute("aria-expanded", String(chosen));
  }
  $("without").hidden = !gone;
  if (!gone) return;
  const a = gone.answer, numbers = now && now.numbers, scale = numbers ? 1 : 100, tip = numbers ? precise : percent;
  text("without-name", `If the ${gone.kind} ${gone.name} dies`);
  text("without-note", gone.error || (a ? `${tip(a.with / scale)} → ${tip(a.without / scale)} on ${whole(a.events)} ${now && now.not_ready === "on disk" ? "events of the checkpoint’s sample" : "of the newest events"}, of which ${whole(a.held)} hold it. It is declared missing, and the current model answers by its missing policy; most of these events it has learned.` : "Computing."));
  const now_ = {name: "as it is", color: "--b", dash: true}, without = {name: "without it", color: "--a"};
  legend("legend-without", [now_, without]);
  let count = 0;
  const spans = a ? a.recent.map(s => [count += s.events, s]) : [], y = numbers ? v => +v.toPrecision(3) : v => fixed(100 * v, 0) + " %";
  text("without-recent", a && a.since ? `On recent events, ${clock(a.since)} to ${clock(spans[spans.length - 1][1].until)}, oldest first:` : "On recent events, oldest first:");
  const of = list => a ? list.map((e, i) => [a.deletions[i], e == null ? null : e / scale]) : [];
  const empty = gone.error ? "No data." : "Computing.";
  chart("chart-without-forecast", {label: "Forecast of the error without " + gone.name, empty, join: true, range: [0, .9], marks: [0, .2, .4, .6, .8], x: v => Math.round(100 * v) + " %", y, tip,
    series: [{...now_, points: of(a && a.forecast_with)}, {...without, points: of(a && a.forecast_without)}]});
  chart("chart-without-recent", {label: "Error on recent events without " + gone.name, empty, join: true, x: whole, y, tip,
    series: [{...now_, points: spans.map(([n, s]) => [n, s.with / scale])}, {...without, points: spans.map(([n, s]) => [n, s.without / scale])}]});
}

// read returns the answer to a request, and throws an error if there is none.
async function read(path, options) {
  const answer = await fetch(path, options);
  if (!answer.ok) throw new Error(answer.status);
  return answer.json();
}
// quietly ignores the errors of f: that a server is gone is told by the stream of events.
const quietly = f => f().catch(() => {});
async function openReport(id) {
  if (id && !opened[id]) opened[id] = await read("v1/reports/" + encodeURIComponent(id));
  drawReport();
}
$("report").addEventListener("change", e => quietly(() => openReport(chosenReport = e.target.value)));
$("report-other").addEventListener("change", e => quietly(() => openReport(otherReport = e.target.value)));

// Reports are there if validation is on.
async function readReports() {
  const list = (await read("v1/reports")).reports || [];
  list.sort((a, b) => Date.parse(b.time) - Date.parse(a.time));
  if (list.length) {
    if (!opened[list[0].id]) {
      const whole = await fetch("v1/reports/" + encodeURIComponent(list[0].id));
      if (whole.ok) opened = {...Object.fromEntries([chosenReport, otherReport].filter(id => opened[id]).map(id => [id, opened[id]])), [list[0].id]: await whole.json()};
    }
    list[0] = opened[list[0].id] || list[0];
  }
  reports = list;
  drawReport();
}

// What is known of the predictions of two classes: calibration, and what another threshold would have meant.
async function readMeasures() {
  measures = await read("v1/measures");
  const r = measures.reliability || [], t = measures.thresholds || [];
  drawConfusion();
  drawAged();
  drawClassCoverage();
  drawAside();
  $("calibration").hidden = r.length < 2;
  if (r.length > 1) chart("chart-calibration", {label: "Observed frequency by predicted probability", join: true, range: [0, 1], marks: [0, .2, .4, .6, .8, 1], x: v => Math.round(100 * v) + " %", y: v => Math.round(100 * v) + " %", tip: percent,
    counts: r.map(b => [b.probability, b.positive, short(b.events)]),
    series: [{name: "came true", color: "--a", dots: true, points: r.map(b => [b.probability, b.positive])}, {name: "if right", color: "--b", dash: true, points: [[0, 0], [1, 1]]}]});
  $("threshold").hidden = t.length < 2;
  if (t.length < 2) return;
  const all = t[t.length - 1], slide = $("threshold-at");
  if (+slide.max !== t.length - 1) {
    const first = !+slide.max;
    slide.max = t.length - 1;
    if (first) slide.value = Math.max(0, t.findIndex(x => x.score <= 0) - 1);
  }
  text("threshold-class", measures.classes[measures.classes.length - 1] || "positive");
  chart("chart-threshold", {label: "Precision by recall", join: true, range: [0, 1], marks: [0, .2, .4, .6, .8, 1], x: v => Math.round(100 * v) + " %", y: v => Math.round(100 * v) + " %", tip: percent,
    series: [{name: "precision", color: "--a", points: t.map(x => [x.positives / all.positives, x.positives / (x.positives + x.negatives)])}]});
  drawThreshold();
}
// Errors by the age of the weights, beside those of the newest weights at the same events.
function drawAged() {
  const list = (measures.by_staleness || []).filter(x => x.age), numbers = list.some(x => x.log_loss == null);
  const error = x => numbers ? own(x) : percent(x == null ? null : x / 100), loss = (x, y) => numbers ? own(x ?? null) : fixed(y ?? null, 4);
  $("by-age").replaceChildren(...list.length ? [el("p", {class: "note"}, explained("Staleness", "Some events are also predicted by a model that is about that many events old, like an export or a snapshot. Current weights predict the same events.")),
    rows(["events old", "error", "newest", numbers ? "deviance" : "log-loss", "newest"], list.map(x => [whole(x.age), error(x.error), error(x.fresh_error), loss(x.deviance, x.log_loss), loss(x.fresh_deviance, x.fresh_log_loss)]))] : []);
}
// How often the sets of each class's events have held it, the worst ones first.
function drawClassCoverage() {
  const list = (measures.coverage_by_class || []).filter(x => x.events).sort((a, b) => a.recent - b.recent).slice(0, mostClasses);
  $("class-coverage").replaceChildren(...list.length > 1 ? [el("p", {class: "note"}, explained("Sets by class", "How often the latest sets of a class’s events contained that class, the lowest first. The target is learner.coverage.")),
    rows(["class", "held", "events"], list.map(x => [x.class, share(x.recent), whole(x.events)]))] : []);
}
// Of more than two classes: who is taken for whom, those with the most events first.
const mostClasses = 12;
function drawConfusion() {
  const m = measures.confusion || [];
  $("confusion").hidden = m.length < 3;
  if (m.length < 3) return;
  const of = m.map(row => row.reduce((a, b) => a + b, 0));
  const list = m.map((_, k) => k).sort((a, b) => of[b] - of[a] || a - b).slice(0, mostClasses);
  $("confusion-table").replaceChildren(rows(["actual / predicted", ...list.map(k => measures.classes[k]), "recall"], list.map(k => [measures.classes[k], ...list.map(j => {
    const cell = el("td", j === k ? {class: "right"} : {}, whole(m[k][j]));
    if (j !== k && of[k]) cell.style.background = `color-mix(in srgb, var(--bad) ${Math.round(60 * m[k][j] / of[k])}%, transparent)`;
    return cell;
  }), percent(of[k] ? m[k][k] / of[k] : null)])));
  text("confusion-note", `Events by their class and by the class predicted before learning, since the start of the program` + (measures.since ? ` at ${clock(measures.since)}.` : ".") +
    (m.length > list.length ? ` The ${list.length} classes with the most events of ${m.length}.` : ""));
}
// What was refused or is doubted, record by record.
function drawAside() {
  const groups = new Map();
  for (const s of measures.samples || []) { const reason = s.why.split(":")[0]; groups.set(reason, [...groups.get(reason) || [], s]); }
  if ((measures.mislabeled || []).length) groups.set("doubtful labels", measures.mislabeled);
  $("aside").hidden = !groups.size;
  $("aside-tables").replaceChildren(...[...groups].map(([reason, list]) => {
    const all = ((measures.refused || {})[reason] || {}).count;
    return applied(reason, `${reason}${all ? ": " + whole(all) : ""}, the newest ${list.length}`, ...list.map(s => {
      const where = `${s.topic.split("/").pop()}/${s.partition} at ${s.offset}`;
      return applied(reason + " " + where, `${where}: ${s.why.startsWith(reason + ": ") ? s.why.slice(reason.length + 2) : s.why}`, el("pre", {class: "record"}, s.text || "not kept"));
    }));
  }));
}
// applied shows its children on a click, and stays as it was when it is drawn again.
const unfolded = new Set();
function applied(key, summary, ...children) {
  const d = el("details", unfolded.has(key) ? {open: ""} : {}, el("summary", {}, summary), ...children);
  d.addEventListener("toggle", () => d.open ? unfolded.add(key) : unfolded.delete(key));
  return d;
}
const cost = (x, all) => (+$("cost-false").value || 0) * x.negatives + (+$("cost-miss").value || 0) * (all.positives - x.positives);
function drawThreshold() {
  const t = measures && measures.thresholds;
  if (!t || t.length < 2) return;
  const x = t[+$("threshold-at").value] || t[t.length - 1], all = t[t.length - 1], n = all.positives + all.negatives;
  text("threshold-score", fixed(x.score, 2));
  $("threshold-table").replaceChildren(rows(["predicted / actual", ...[...measures.classes].reverse()], [
    [measures.classes[measures.classes.length - 1], whole(x.positives), whole(x.negatives)],
    [measures.classes[0], whole(all.positives - x.positives), whole(all.negatives - x.negatives)]]),
    el("p", {class: "note"}, `Precision ${percent(x.positives / (x.positives + x.negatives))}, recall ${percent(x.positives / all.positives)}, error ${percent((x.negatives + all.positives - x.positives) / n)}, cost ${precise(cost(x, all) / n)} an event.`));
}
for (const id of ["threshold-at", "cost-false", "cost-miss"]) $(id).addEventListener("input", drawThreshold);
$("threshold-best").addEventListener("click", () => {
  const t = measures.thresholds, all = t[t.length - 1];
  $("threshold-at").value = t.reduce((best, x, i) => cost(x, all) < cost(t[best], all) ? i : best, 0);
  drawThreshold();
});

// The largest weights of a class.
let largest = null;
async function readLargest() {
  largest = await read("v1/model/largest?n=15");
  drawLargest();
}
function drawLargest() {
  const list = (largest.outputs || []).filter(o => (o.weights || []).length), choose = $("largest-class");
  $("largest").hidden = !list.length;
  if (!list.length) return;
  const names = list.map(o => o.class).join("\n");
  choose.hidden = list.length < 2;
  if (choose.dataset.names !== names) {
    choose.dataset.names = names;
    choose.replaceChildren(...list.map((o, i) => el("option", {value: i}, o.class)));
  }
  const o = list[+choose.value || 0], most = Math.max(...o.weights.map(w => Math.abs(w.weight)), 1e-300);
  $("largest-table").replaceChildren(rows(["feature", "weight", ""], o.weights.map(w => [w.feature, precise(w.weight), el("td", {class: "bars"}, signed(w.weight / most))])));
  text("largest-note", `Of ${whole(largest.features)} features${o.class ? `, for ${o.class}: what speaks for it` : ": what raises the prediction"} is positive. Numbers are standardized.`);
}
$("largest-class").addEventListener("change", drawLargest);
// The curves of numbers, those that move the score most first: so many unless all are asked for.
const fewCurves = 24;
let curves = null, allCurves = false;
async function readCurves() {
  curves = (await read("v1/model", {headers: {Accept: "application/json"}})).curves || [];
  drawCurves();
}
function drawCurves() {
  $("curves").hidden = !curves || !curves.length;
  if ($("curves").hidden) return;
  const choose = $("curves-class"), classes = curves[0].added.map(a => a.class);
  choose.hidden = classes.length < 2;
  if (choose.dataset.names !== classes.join("\n")) {
    choose.dataset.names = classes.join("\n");
    choose.replaceChildren(...classes.map((c, i) => el("option", c ? {value: i} : {value: i, hidden: ""}, c)));
  }
  const k = +choose.value || 0, spread = c => Math.max(...c.added[k].score) - Math.min(...c.added[k].score);
  const sorted = [...curves].sort((a, b) => spread(b) - spread(a)), list = allCurves ? sorted : sorted.slice(0, fewCurves);
  const low = Math.min(0, ...list.flatMap(c => c.added[k].score)), high = Math.max(0, ...list.flatMap(c => c.added[k].score)), room = .05 * (high - low) || 1;
  const names = list.map(c => c.feature).join("\n");
  if ($("curves-charts").dataset.names !== names) {
    $("curves-charts").dataset.names = names;
    list.forEach((_, i) => { if (plots["curve-" + i]) { plots["curve-" + i].plot.destroy(); delete plots["curve-" + i]; } });
    $("curves-charts").replaceChildren(...list.map((c, i) => el("div", {}, el("h3", {}, c.feature), el("div", {class: "chart", id: "curve-" + i}))));
  }
  list.forEach((c, i) => chart("curve-" + i, {label: "What " + c.feature + " adds to the score, by its value", join: true, height: 110, signed: [low - room, high + room], range: [c.x[0], c.x[c.x.length - 1]],
    x: v => +v.toPrecision(4) + "", y: v => +v.toPrecision(2), tip: v => (v < 0 ? "-" : "+") + Math.abs(v).toPrecision(3), series: [{name: "adds", color: "--a", points: c.x.map((x, j) => [x, c.added[k].score[j]])}]}));
  text("curves-note", `What each numeric field adds to the score${classes[k] ? " for " + classes[k] : ""}, by its value. All have one scale, the largest effects first.`);
  $("curves-all").hidden = curves.length <= fewCurves;
  text("curves-all", allCurves ? `Show the first ${fewCurves}` : `Show all ${curves.length}`);
}
$("curves-class").addEventListener("change", drawCurves);
$("curves-all").addEventListener("click", () => { allCurves = !allCurves; drawCurves(); });

// A bar as wide as a share of its cell, in a table.
function bars(share) {
  const bar = el("span", {class: "bar"});
  bar.style.width = 100 * share + "%";
  return el("td", {class: "bars"}, bar);
}

function signed(share) {
  const bar = el("span", {class: "bar " + (share < 0 ? "down" : "up")});
  bar.style.width = 100 * Math.abs(share) + "%";
  return el("span", {class: "signed"}, bar);
}

// Several learners of the stream, compared with the one that is the leader.
function drawLearners(s) {
  const list = s.learners || [];
  $("learners").hidden = list.length === 0;
  if (list.length === 0) return;
  const difference = d => d && d.difference != null ? `${d.difference.toPrecision(3)}${d.standard_error == null ? "" : ` ± ${(2 * d.standard_error).toPrecision(2)}`}` : none;
  $("learners-table").replaceChildren(rows(["learner", "events", s.numbers ? "MAE, recent" : "error, recent", s.numbers ? "RMSE, recent" : "log-loss, recent", "against the leader", "latest window", "window before", ""],
    list.map(x => [x.name + (x.leader ? " (leader)" : ""), whole(x.events), x.recent_error != null ? percent(x.recent_error / 100) : x.recent_mae != null ? x.recent_mae.toPrecision(4) : none,
      x.recent_log_loss != null ? fixed(x.recent_log_loss, 4) : x.recent_rmse != null ? x.recent_rmse.toPrecision(4) : none,
      difference(x.compared), difference(x.compared && x.compared.window), difference(x.compared && x.compared.previous_window), el("td", {}, x.leader ? "leader" : button("Promote", () => promote(x.name)))])));
}
function button(name, act) {
  const b = el("button", {type: "button"}, name);
  b.addEventListener("click", act);
  return b;
}
async function promote(name) {
  if (!confirm(`Make ${name} the leader, whose predictions are served?`)) return;
  const answer = await fetch("v1/promote", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify({name})});
  text("learners-note", answer.ok ? name + " is the leader." : (await answer.json()).error);
}

// The shards of a group, as the member that serves the page knows them.
async function readGroup() {
  const g = await read("v1/group"), shards = g.shards || [], waiting = shards.filter(s => s.own && s.not_ready);
  $("group").hidden = false;
  $("group-table").replaceChildren(rows(["shard", "events", "error", explained("own", "Fraction of the shard's own score in the answers to its keys; the mean of all shards has the rest."), "lag", "model"],
    shards.map(s => [s.shard + (s.own ? " (this member)" : ""), whole(s.events), s.error == null ? "–" : percent(s.error / 100), percent(s.own_weight), s.own ? whole(s.lag) : "–",
      s.at ? span((Date.now() - Date.parse(s.at)) / 1000) + " ago" : "–"])));
  text("group-note", `${whole(g.members - g.standby)} members learn, ${whole(g.standby)} stand by. This one learns ${whole(shards.filter(s => s.own).length)} of ${whole(shards.length)} shards. ` +
    "The errors are of the answers of all shards, to events that the shard then learned.");
  text("group-alarm", waiting.map(s => `Shard ${s.shard} waits: ${s.not_ready}.`).join(" "));
}

// Try an event: a form of the newest event's fields, answered as /v1/predict answers anybody.
let tried = null; // {format, event (text), fields: {name: {value, on}} of JSON or CSV}
async function tryNewest() {
  const answer = await fetch("v1/newest");
  if (answer.status !== 200) return;
  const got = await answer.json();
  tried = {format: got.format, text: got.event, fields: null, groups: {}};
  try {
    const event = JSON.parse(got.event);
    if (event && typeof event === "object" && !Array.isArray(event)) {
      tried.fields = {};
      for (const k in event) if (k !== got.label && !(got.unused || []).includes(k)) tried.fields[k] = {value: event[k], on: true};
      for (const g in got.groups || {}) { const names = got.groups[g].filter(k => tried.fields[k]); if (names.length > 1) tried.groups[g] = names; }
    }
  } catch (e) { /* not JSON: its text is edited as it is */ }
  $("try").hidden = false;
  drawForm();
  ask();
}
function drawForm() {
  const form = $("try-form");
  if (!tried.fields) {
    const area = el("textarea", {"aria-label": "Event", spellcheck: "false"});
    area.value = tried.text;
    area.addEventListener("input", () => { tried.text = area.value; askSoon(); });
    form.replaceChildren(el("span", {class: "group"}, "A record of the stream, in the stream's format."), area);
    return;
  }
  const groups = Object.entries(tried.groups).map(([name, fields]) => {
    const on = el("input", {type: "checkbox", "data-group": name, ...(fields.some(k => tried.fields[k].on) ? {checked: ""} : {})});
    on.addEventListener("change", () => { for (const k of fields) tried.fields[k].on = on.checked; drawForm(); ask(); });
    return el("label", {title: fields.join(", ")}, on, " ", name);
  });
  form.replaceChildren(el("span", {class: "group"}, "Clear the checkbox of a field to declare it missing (null)."),
    ...(groups.length ? [el("span", {class: "group"}, "All of a group: ", ...groups.flatMap(g => [g, " "]))] : []), ...Object.entries(tried.fields).flatMap(([name, f]) => {
    const on = el("input", {type: "checkbox", "aria-label": "use " + name, ...(f.on ? {checked: ""} : {})});
    const label = el("label", f.on ? {} : {class: "off"}, name);
    const value = el("input", {type: "text", "aria-label": name, spellcheck: "false"});
    value.value = typeof f.value === "string" ? f.value : JSON.stringify(f.value);
    on.addEventListener("change", () => { f.on = on.checked; label.className = f.on ? "" : "off"; ask(); });
    value.addEventListener("input", () => {
      if (typeof f.value === "string") f.value = value.value;
      else try { f.value = JSON.parse(value.value); } catch (e) { f.value = value.value; }
      askSoon();
    });
    return [on, label, value];
  }));
}
const event = () => tried.fields ? JSON.stringify(Object.fromEntries(Object.entries(tried.fields).map(([k, f]) => [k, f.on ? f.value : null]))) : tried.text;
let waiting = 0, asked = 0;
function askSoon() { clearTimeout(waiting); waiting = setTimeout(ask, 250); }
async function ask() {
  if (!tried) return;
  const turn = ++asked, box = $("try-answer");
  let p;
  try {
    const answer = await fetch("v1/predict?explain=" + mostContributions, {method: "POST", headers: {"Content-Type": "application/json"}, body: event()});
    const body = await answer.json();
    p = answer.ok ? body.predictions[0] : body;
  } catch (e) { p = {error: "no connection"}; }
  if (turn !== asked) return; // a newer question is under way
  if (p.error) { box.replaceChildren(el("p", {class: "why"}, p.error)); return; }
  const chances = Object.entries(p.probabilities || {}), names = chances.length > 2 ? chances.sort((a, b) => b[1] - a[1]).slice(0, 8) : [], most = Math.max(...(p.explanation || []).map(c => Math.abs(c.score)), 1e-300);
  const says = [];
  const alone = (p.explanation || []).length && p.explanation.every(c => c.feature === "(intercept)");
  if ((p.missing || []).length && alone) says.push(`Missing: ${p.missing.join(", ")}. The model knows no other feature: the score is the intercept.`);
  else if ((p.missing || []).length) says.push(`Missing: ${p.missing.join(", ")}; scored by the missing policy “${p.missing_policy || "none"}”${p.noise_level ? ", level " + p.noise_level : ""}.`);
  if ((p.stuck || []).length) says.push(`Stuck: ${p.stuck.join(", ")}: this value of the field counts as missing.`);
  for (const d of p.doubted || []) says.push(`Doubted: ${d.field} reads ${precise(d.value)}, ${d.reason === "repeated" ? "a value that began to repeat; the other numbers say" : "but the other numbers say"} ${precise(d.expected)} (no measurement with probability ${percent(d.probability)}).`);
  if ((p.unseen || []).length) says.push(`Not seen: ${p.unseen.join(", ")}. They add nothing.`);
  box.replaceChildren(
    p.value != null ? el("div", {class: "bigclass"}, precise(p.value), el("small", {}, p.low == null ? "" : ` between ${precise(p.low)} and ${precise(p.high)}`)) :
    el("div", {class: "bigclass"}, p.class == null ? fixed(p.scores[0], 3) : p.class, el("small", {}, p.probability == null ? "" : " with probability " + percent(p.probability) + (p.low == null ? "" : `, between ${percent(p.low)} and ${percent(p.high)} depending on the missing fields`))),
    names.length ? rows(["class", "probability"], names.map(([c, v]) => [c, percent(v)])) : "",
    (p.explanation || []).length ? rows(["adds to the " + (p.value != null ? "value" : "log-odds of " + explainedClass(p)), "", ""], completed(p).map(c => [c.feature, (c.score < 0 ? "-" : "+") + (p.value != null ? own(Math.abs(c.score)) : Math.abs(c.score).toPrecision(3)), c.total ? "" : el("td", {class: "bars"}, signed(Math.max(-1, Math.min(1, c.score / most))))])) : "",
    ...says.map(t => el("p", {class: "note"}, t)));
}
const mostContributions = 12;
// explainedClass is the class whose score is explained: of two classes the second one.
function explainedClass(p) {
  const names = (now.classes || []).map(c => c.name);
  return p.scores.length === 1 && names.length === 2 ? names[1] : p.class;
}
// completed returns the contributions with what they lack: they add up to the value, or to the log-odds of the probability.
function completed(p) {
  const list = [...p.explanation], sum = () => list.reduce((a, c) => a + c.score, 0), doubts = (p.doubted || []).length > 0;
  const add = (names, total) => { const score = total - sum(); if (names.length && Math.abs(score) > 1e-3 * Math.max(1, Math.abs(total))) list.push({feature: `(${names.join(", ")})`, score}); };
  const lacking = [...list.length < mostContributions ? [] : ["other features"], ...doubts ? ["doubted numbers"] : []];
  if (p.value != null || p.probability == null) { add(lacking, p.value != null ? p.value : p.score); return list; }
  add(lacking, p.score);
  const chance = Math.min(Math.max((p.probabilities || {})[explainedClass(p)] ?? p.probability, 1e-15), 1 - 1e-15);
  add(["calibration", ...p.scores.length > 1 ? ["other classes"] : []], Math.log(chance / (1 - chance)));
  return [...list, {feature: `log-odds of ${percent(chance)}`, score: sum(), total: true}];
}
$("try-form").addEventListener("submit", e => e.preventDefault());
$("try-newest").addEventListener("click", tryNewest);
$("try-curl").addEventListener("click", async () => {
  const quote = s => "'" + s.replace(/'/g, "'\\''") + "'";
  const line = `curl --data-binary ${quote(event())} ${quote(location.origin + location.pathname + "v1/predict?explain=" + mostContributions)}`;
  try { await navigator.clipboard.writeText(line); text("try-curl", "Copied"); } catch (e) { prompt("The command", line); }
  setTimeout(() => text("try-curl", "Copy as curl"), 1500);
});

$("marks-legend").replaceChildren(...[["start", "start"], ["drift", "drift"], ["field", "a field's alarm"], ["promoted", "promoted"]].flatMap(([kind, name]) => {
  const swatch = el("i", {class: "swatch"});
  swatch.style.background = `var(${markColors[kind]})`;
  return [swatch, name];
}));

function readAll() {
  if (now.group) quietly(readGroup);
  if (now.reporting) quietly(readReports);
  if (!now.model) return;
  if (!now.model.kernel) { quietly(readLargest); quietly(readCurves); }
  if (now.started == null) return; // nothing is learned here
  quietly(readMeasures);
  if (!tried) quietly(tryNewest);
}

const source = new EventSource("v1/events");
source.addEventListener("history", e => { points = []; JSON.parse(e.data).forEach(add); });
source.addEventListener("marks", e => { marks = JSON.parse(e.data); });
source.addEventListener("status", e => {
  const first = !now;
  now = JSON.parse(e.data); heard = Date.now(); add(now); draw(); document.body.dataset.events = now.events;
  if (first) readAll();
});
function lost() {
  if (source.readyState === EventSource.OPEN && Date.now() - heard < 15000) return;
  $("state").className = "state off";
  text("state", "no connection");
  document.body.classList.add("stale");
  document.title = "? " + (now && now.name ? now.name + " · blankout" : "blankout");
  if (heard) text("why", `The server does not answer. This page is ${span((Date.now() - heard) / 1000)} old.`);
}
source.onerror = lost;
setInterval(() => { if (heard && Date.now() - heard > 5000) lost(); }, 1000);
setInterval(() => { if (now) readAll(); }, 10000);
for (const e of [window, matchMedia("(prefers-color-scheme: dark)")]) e.addEventListener(e === window ? "resize" : "change", () => { draw(); drawReport(); drawCurves(); drawWithout(); });
