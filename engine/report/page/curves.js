// Numbers that programs reported, over epochs, steps or time; dashed lines mark where a job resumed after a requeue.
const HUES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b37700", "#56b4e9", "#8064a2", "#7a6a53"];
const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3]];
const MOST_LINES = 32;
let chart = null;

const axis = (title, type, more = {}) => ({ type, title: { display: true, text: title, color: color("quiet") }, grid: { color: color("line") }, ticks: { color: color("quiet"), ...more } });

/** Draws the legend below a chart. It can be folded, and is folded at first on a small screen. */
function drawKey(key, datasets) {
  key.hidden = datasets.length < 2;
  key.querySelector("div").replaceChildren(...datasets.map(({ label, borderColor, borderDash = [] }) => make("span", {},
    makeSvg("svg", { width: 22, height: 4, "aria-hidden": "true" }, makeSvg("line", { x2: 22, y1: 2, y2: 2, stroke: borderColor, "stroke-width": 2, "stroke-dasharray": borderDash.join(" ") })), ` ${label}`)));
}
const makeKey = (id) => make("details", { id, class: "lines", open: matchMedia("(min-width: 30rem)").matches }, make("summary", {}, "Legend"), make("div"));

const inMetricOrder = (names) => names.sort((a, b) => data.metrics.indexOf(a) - data.metrics.indexOf(b));
const nameOfMetric = (name) => name.replace(/_/g, " ").replace(/ per s$/, " per second").replace(/ s$/, " (s)");
const curveOf = (job, metric) => job.curves?.find((curve) => curve.name === metric);

/** The points of a curve over the chosen axis, with a gap where the curve restarts. */
function pointsOf(curve, over) {
  const xs = over === "time" ? curve.at : curve[over], points = [];
  curve.value.forEach((value, index) => {
    if (curve.breaks.includes(index)) points.push({ x: NaN, y: NaN });
    if (xs[index] !== null && value !== null) points.push({ x: xs[index], y: value });
  });
  return points;
}

/** The positions at which a job resumed after a requeue, or was tried again. */
function marksOf(job, curve, over) {
  return job.spans.filter((span) => isRunning(span) && (span[2] > 1 || span[1] > 1)).flatMap((span) => {
    if (over === "time") return [span[3]];
    const index = curve.at.findIndex((at) => at !== null && at >= span[3]);
    return index < 0 ? [] : [curve[over][index]];
  });
}

const requeueMarks = {
  id: "requeues",
  afterDatasetsDraw(plot) {
    const pen = plot.ctx, { left, right, top, bottom } = plot.chartArea;
    pen.save();
    pen.setLineDash([3, 3]);
    pen.strokeStyle = color("quiet");
    for (const at of plot.options.marks ?? []) {
      const across = plot.scales.x.getPixelForValue(at);
      if (across < left || across > right) continue;
      pen.beginPath(); pen.moveTo(across, top); pen.lineTo(across, bottom); pen.stroke();
    }
    pen.restore();
  },
};

function drawCurves() {
  const metric = byId("curve-metric").value, over = byId("curve-x").value;
  const all = view.jobs.filter((job) => curveOf(job, metric));
  let lines = all.slice(0, MOST_LINES);
  if (view.job && curveOf(view.job, metric) && !lines.includes(view.job)) lines = [view.job, ...lines.slice(1)];
  const chosen = view.job && lines.includes(view.job) ? view.job : null;
  const datasets = lines.map((job, index) => ({
    label: job.name, data: pointsOf(curveOf(job, metric), over), borderColor: HUES[index % HUES.length], backgroundColor: HUES[index % HUES.length],
    borderDash: DASHES[Math.floor(index / HUES.length) % DASHES.length], borderWidth: chosen === job ? 3 : chosen ? 0.8 : 1.6,
    pointRadius: curveOf(job, metric).value.length < 12 ? 3 : 0, pointHitRadius: 8, spanGaps: false, tension: 0,
  }));
  const marked = chosen ? [chosen] : lines.length <= 4 ? lines : [];
  const options = {
    animation: false, responsive: true, maintainAspectRatio: false, parsing: false, normalized: false,
    marks: marked.flatMap((job) => marksOf(job, curveOf(job, metric), over)),
    interaction: { mode: "nearest", intersect: false },
    scales: { x: axis(over === "time" ? "since the run began" : `${over}s`, "linear", over === "time" ? { callback: (value) => duration(realTime(value)) } : {}),
              y: axis(nameOfMetric(metric), byId("curve-scale").value) },
    plugins: {
      legend: { display: false },
      tooltip: { callbacks: { title: () => "", label: (item) => `${item.dataset.label}: ${number(item.parsed.y)} at ${over === "time" ? duration(realTime(item.parsed.x)) : `${over} ${number(item.parsed.x)}`}` } },
    },
  };
  if (chart) chart.destroy();
  chart = new Chart(byId("curve"), { type: "line", data: { datasets }, options, plugins: [requeueMarks] });
  drawKey(byId("curve-key"), datasets);
  const last = (job) => { const { value } = curveOf(job, metric); return number(value[value.length - 1]); };
  byId("curve").setAttribute("aria-label", `${nameOfMetric(metric)} of ${plural(lines.length, "job")}; last values: ${lines.slice(0, 12).map((job) => `${job.name} ${last(job)}`).join(", ")}`);
  byId("curve-note").textContent = all.length > lines.length ? `${lines.length} of ${plural(all.length, "job")}; filter to see others`
    : options.marks.length > 0 ? "┆ requeued or tried again" : "";
}

function offerMetrics() {
  const names = [...new Set(view.run.jobs.flatMap((job) => (job.curves ?? []).map((curve) => curve.name)))];
  const rank = (name) => { const place = ["loss", "validation_loss", "accuracy"].indexOf(name); return place < 0 ? 9 : place; };
  names.sort((a, b) => rank(a) - rank(b));
  byId("curves").hidden = names.length === 0;
  document.querySelector('nav a[href="#curves"]').hidden = names.length === 0;
  byId("curve-metric").replaceChildren(...names.map((name) => make("option", { value: name }, nameOfMetric(name))));
}

const showsCurves = () => !byId("curves").hidden;
view.onChange((what) => {
  if (what === "run") offerMetrics();
  if (what !== "time" && showsCurves()) drawCurves();
});
byId("curves").append(makeKey("curve-key"));
for (const id of ["curve-metric", "curve-x", "curve-scale"]) byId(id).onchange = drawCurves;
