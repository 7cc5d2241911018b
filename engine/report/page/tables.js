// Tables: pictures, where training waited, asked and used, attempts, energy, comparison, provenance.
const FEW_ROWS = 50;

/** A column: its heading, the text or node of a row, and the sort key of a row. Columns with numeric keys are right-aligned. */
const column = (name, show, by = null) => ({ name, show, by });

/** The throughput in the unit of its metric: pictures, tokens of text, or rows of tables. */
function speedOf(metrics) {
  const units = { images_per_s: "img/s", tokens_per_s: "tokens/s", samples_per_s: "samples/s" };
  const metric = Object.keys(units).find((name) => metrics?.[name] !== undefined);
  return metric && { rate: metrics[metric], unit: units[metric] };
}

function speedText(metrics) {
  const speed = speedOf(metrics);
  return speed ? `${number(speed.rate)} ${speed.unit}` : "";
}

/** Replaces the content below a section's heading with a table without empty columns; hides the section if there are no rows. */
function fill(id, allColumns, rows, ...before) {
  const columns = allColumns.filter((entry) => rows.some((row) => ![undefined, "", "–"].includes(entry.show(row))));
  const section = byId(id);
  let sorted = [...rows], shown = FEW_ROWS, order = null;
  section.hidden = rows.length === 0;
  for (const link of document.querySelectorAll(`nav a[href="#${id}"]`)) link.hidden = section.hidden;
  const body = make("tbody"), more = make("button", { type: "button", class: "more", onclick: () => { shown = Infinity; draw(); } });
  const numbers = new Set(columns.filter((entry) => entry.by !== null && rows.every((row) => ["number", "undefined"].includes(typeof entry.by(row)))));
  const isNumber = (entry) => numbers.has(entry);  // called for each cell, so it must not visit all rows
  const headings = columns.map((entry) => make("th", { class: isNumber(entry) ? "number" : "", scope: "col" },
    entry.by ? make("button", { type: "button", onclick: () => sortBy(entry) }, entry.name) : entry.name));
  function sortBy(entry) {
    const down = order?.entry === entry ? !order.down : isNumber(entry);
    order = { entry, down };
    const value = (row) => entry.by(row) ?? (isNumber(entry) ? -Infinity : "");
    sorted.sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (down ? -1 : 1));
    draw();
  }
  function draw() {
    body.replaceChildren(...sorted.slice(0, shown).map((row) => make("tr", {}, columns.map((entry) => make("td", { class: isNumber(entry) ? "number" : "", "data-name": typeof entry.name === "string" ? entry.name : "" }, entry.show(row) ?? "")))));
    headings.forEach((heading, index) => {
      if (order?.entry === columns[index]) heading.setAttribute("aria-sort", order.down ? "descending" : "ascending"); else heading.removeAttribute("aria-sort");
    });
    more.textContent = `Show all ${rows.length.toLocaleString("en")}`;
    more.hidden = rows.length <= shown;
  }
  draw();
  section.replaceChildren(section.querySelector("h2"), ...before, make("div", { class: "table" }, make("table", {}, make("thead", {}, make("tr", {}, headings)), body)), more);
}

const jobColumn = column("Job", (row) => row.job.name, (row) => row.job.name);

function drawPictures() {
  const rows = view.jobs.flatMap((job) => (job.pictures ?? []).map((picture) => ({ job, picture })));
  const image = ({ job, picture }) => make("img", { src: picture.src, alt: `${picture.name} of ${job.name}` });
  fill("pictures", [jobColumn, column("Output", (row) => row.picture.name, (row) => row.picture.name), column("", image)], rows);
}

function drawWaiting() {
  const rows = view.jobs.filter((job) => job.training).map((job) => {
    const { training_s: all, data_wait_s: forData = 0, communication_wait_s: forOthers = 0 } = job.training;
    return { job, all, forData, forOthers, computed: Math.max(0, all - forData - forOthers) };
  });
  const part = (kind, share) => { const piece = make("i", { class: kind }); piece.style.width = `${100 * share}%`; return piece; };
  fill("waiting", [
    jobColumn,
    column("Training", (row) => duration(row.all), (row) => row.all),
    column("", (row) => make("div", { class: "bar", role: "img", "aria-label": `computing ${percent(row.computed / row.all)}` },
      part("compute", row.computed / row.all), part("exchange", row.forOthers / row.all), part("data", row.forData / row.all))),
    column("Computing", (row) => percent(row.computed / row.all), (row) => row.computed / row.all),
    column("Exposed communication", (row) => (row.job.training.communication_wait_s === undefined ? "not measured" : percent(row.forOthers / row.all)), (row) => row.forOthers / row.all),
    column("Waiting for data", (row) => percent(row.forData / row.all), (row) => row.forData / row.all),
    column("Speed", (row) => speedText(row.job.metrics), (row) => speedOf(row.job.metrics)?.rate),
  ], rows, make("p", { class: "note key" }, make("i", { class: "compute" }), "computing", make("i", { class: "exchange" }), "waiting for gradients of other ranks", make("i", { class: "data" }), "waiting for data; means over the ranks, without evaluation"));
}

function drawUsage() {
  const rows = view.jobs.filter((job) => job.used).map((job) => ({ job, used: job.used, asked: job.asked ?? {} }));
  const cores = (row) => (row.asked.ranks ?? 1) * (row.asked.cpus_per_rank ?? 1);
  fill("usage", [
    jobColumn,
    column("Cores", (row) => number(cores(row)), cores),
    column("Cores used", (row) => (row.used.cpu_efficiency === undefined ? "–" : percent(row.used.cpu_efficiency)), (row) => row.used.cpu_efficiency),
    column("Memory", (row) => (row.asked.memory_bytes ? size(row.asked.memory_bytes) : "–"), (row) => row.asked.memory_bytes),
    column("Memory used", (row) => (row.used.memory_bytes ? size(row.used.memory_bytes) : "–"), (row) => row.used.memory_bytes),
    column("Walltime", (row) => (row.asked.walltime_s ? duration(row.asked.walltime_s) : "–"), (row) => row.asked.walltime_s),
    column("Time used", (row) => (row.used.elapsed_s === undefined ? "–" : duration(row.used.elapsed_s)), (row) => row.used.elapsed_s),
    column("Advice", (row) => (row.job.advice ?? []).join("; ")),
  ], rows.sort((a, b) => (b.job.advice?.length ?? 0) - (a.job.advice?.length ?? 0)));
}

function drawAttempts() {
  const bad = (span) => span[5] !== "succeeded" && span[5] !== null, passes = (job) => job.spans.filter(isRunning);
  const rows = view.jobs.filter((job) => passes(job).some(bad)).flatMap((job) => passes(job).map((span) => ({ job, span })));
  const stopped = view.jobs.filter((job) => !job.spans.some(isRunning) && ["wrong", "stopped"].includes(look(job.state)[1])).map((job) => ({ job, span: null }));
  fill("attempts", [
    jobColumn,
    column("Attempt", (row) => (row.span ? number(row.span[1]) : "–"), (row) => row.span?.[1] ?? 0),
    column("Pass", (row) => (row.span ? number(row.span[2]) : "–"), (row) => row.span?.[2] ?? 0),
    column("Outcome", (row) => (row.span?.[5] === "queued" ? make("span", { class: "state lost" }, "↻ requeued") : badge(row.span?.[5] ?? row.job.state))),
    column("Ran", (row) => (row.span ? duration(endOf(row.span) - row.span[3]) : "–"), (row) => (row.span ? endOf(row.span) - row.span[3] : 0)),
    column("Node", (row) => row.span?.[6] ?? ""),
    column("Cause", (row) => row.span?.[7] || (row.span ? "" : row.job.reason) || ""),
  ], [...rows, ...stopped]);
}

function drawEnergy() {
  const rows = view.jobs.filter((job) => job.used?.energy_j !== undefined);
  fill("energy", [
    column("Job", (job) => job.name, (job) => job.name),
    column("Energy", (job) => `${number(job.used.energy_j / 3600)} Wh`, (job) => job.used.energy_j),
    column("Mean power", (job) => (job.used.elapsed_s ? `${number(job.used.energy_j / job.used.elapsed_s)} W` : "–"), (job) => job.used.energy_j / job.used.elapsed_s),
  ], rows, make("p", {}, `${number(sum(rows.map((job) => job.used.energy_j)) / 3600)} Wh in all, from SLURM's accounting (ConsumedEnergyRaw).`),
  make("p", { class: "note" }, "SLURM counts whole nodes: what other jobs did there at the same time is in it."));
}

const INTERVAL = 190;
const placeBetween = (low, high) => (value) => (high > low ? 6 + ((value - low) / (high - low)) * (INTERVAL - 12) : INTERVAL / 2);

/** The axis of the intervals below it. */
function intervalAxis(low, high) {
  const svg = makeSvg("svg", { class: "interval", width: INTERVAL, height: 20, role: "img", "aria-label": `from ${number(low)} to ${number(high)}` });
  svg.append(makeSvg("line", { class: "value", x1: 6, x2: INTERVAL - 6, y1: 16, y2: 16 }));
  const ends = high > low ? [[low, "start"], [(low + high) / 2, "middle"], [high, "end"]] : [[low, "middle"]];
  for (const [value, anchor] of ends) {
    const at = placeBetween(low, high)(value);
    svg.append(makeSvg("line", { class: "value", x1: at, x2: at, y1: 13, y2: 19 }), makeSvg("text", { x: anchor === "start" ? 0 : anchor === "end" ? INTERVAL : at, y: 10, "text-anchor": anchor }, digits(value)));
  }
  return svg;
}

/** A mean with its interval, on the scale of all rows. */
function interval(metric, low, high) {
  const width = INTERVAL, place = placeBetween(low, high);
  const svg = makeSvg("svg", { class: "interval", width, height: 16, role: "img", "aria-label": `${number(metric.low ?? metric.mean)} to ${number(metric.high ?? metric.mean)}` });
  for (const value of metric.values) svg.append(makeSvg("circle", { class: "value", cx: place(value), cy: 8, r: 2.5 }));
  if (metric.low !== undefined) svg.append(makeSvg("line", { x1: place(Math.max(metric.low, low)), x2: place(Math.min(metric.high, high)), y1: 8, y2: 8 }));
  svg.append(makeSvg("circle", { cx: place(metric.mean), cy: 8, r: 3.5 }));
  return svg;
}

let comparedMetric = null, comparedAxis = null, sweepChart = null;

/** The metric against a parameter of the sweep, in a colour for each value of the next parameter. */
function drawSweep(all, title) {
  const valueOf = ({ group }, name) => (typeof group.matrix[name] === "object" ? JSON.stringify(group.matrix[name]) : group.matrix[name]);
  let rows = all;
  const values = (name) => [...new Set(rows.map((row) => valueOf(row, name)).filter((value) => value !== undefined))];
  const axes = [...new Set(rows.flatMap(({ group }) => Object.keys(group.matrix)))].filter((name) => values(name).length > 1);
  if (!axes.includes(comparedAxis)) [comparedAxis] = axes;
  sweepChart?.destroy();
  sweepChart = null;
  if (axes.length === 0) return;
  rows = all.filter((row) => valueOf(row, comparedAxis) !== undefined);
  const chosen = make("select", { id: "compared-axis", onchange: (event) => { comparedAxis = event.target.value; drawComparison(); byId("compared-axis").focus(); } },
    axes.map((name) => make("option", { value: name, selected: name === comparedAxis }, name)));
  const canvas = make("canvas", { id: "sweep", role: "img", "aria-label": `${title} against ${comparedAxis}` }), key = makeKey("sweep-key");
  byId("comparison").append(make("div", { class: "tools" }, make("label", {}, `${title} against `, chosen)), make("div", { class: "chart" }, canvas), key);
  const xs = values(comparedAxis), numeric = xs.every((value) => typeof value === "number"), next = axes.find((name) => name !== comparedAxis && values(name).length > 1);
  const wide = numeric && Math.min(...xs) > 0 && xs.length > 2 && Math.max(...xs) / Math.min(...xs) >= 20;
  const datasets = (next ? values(next) : [undefined]).map((value, index) => ({
    label: next ? `${next} = ${value}` : title, borderColor: HUES[index % HUES.length], backgroundColor: HUES[index % HUES.length], pointRadius: 4,
    data: rows.filter((row) => !next || valueOf(row, next) === value)
      .map((row) => ({ x: numeric ? valueOf(row, comparedAxis) : String(valueOf(row, comparedAxis)), y: row.metric.mean, job: row.group.job })),
  }));
  const x = { ...axis(comparedAxis, wide ? "logarithmic" : numeric ? "linear" : "category", wide ? { callback: number } : {}), ...(numeric ? {} : { labels: xs.map(String), offset: true }) };
  sweepChart = new Chart(canvas, { type: "scatter", data: { datasets }, options: {
    animation: false, responsive: true, maintainAspectRatio: false, scales: { x, y: axis(title, "linear") },
    plugins: { legend: { display: false }, tooltip: { callbacks: { title: () => "", label: ({ raw }) => `${raw.job}: ${number(raw.y)}` } } } } });
  drawKey(key, datasets);
}

function drawComparison() {
  const names = inMetricOrder([...new Set(data.comparison.flatMap((group) => Object.keys(group.metrics)))]);
  if (!names.includes(comparedMetric)) comparedMetric = names[0];
  const rows = data.comparison.filter((group) => group.metrics[comparedMetric]).map((group) => ({ group, metric: group.metrics[comparedMetric] }));
  const title = nameOfMetric(comparedMetric ?? ""), down = data.largest.includes(comparedMetric), repeated = rows.some(({ metric }) => metric.n > 1);
  rows.sort((a, b) => (down ? -1 : 1) * (a.metric.mean - b.metric.mean));
  const ends = rows.flatMap(({ metric }) => [metric.low ?? metric.mean, metric.high ?? metric.mean, ...metric.values]);
  const low = Math.min(...ends), high = Math.max(...ends);
  const select = make("select", { id: "compared", onchange: (event) => { comparedMetric = event.target.value; drawComparison(); byId("compared").focus(); } },
    names.map((name) => make("option", { value: name, selected: name === comparedMetric }, nameOfMetric(name))));
  fill("comparison", [
    ...(data.runs.length > 1 ? [column("Run", ({ group }) => group.run, ({ group }) => group.run)] : []),
    column("Job", ({ group }) => group.job, ({ group }) => group.job),
    column("Repeats", ({ metric }) => (repeated ? number(metric.n) : ""), ({ metric }) => metric.n),
    column(repeated ? `${title}, mean` : title, ({ metric }) => digits(metric.mean), ({ metric }) => metric.mean),
    column("95 % interval of the mean", ({ metric }) => (metric.low === undefined ? "–" : `${digits(metric.low)} to ${digits(metric.high)}`)),
    column(intervalAxis(low, high), ({ metric }) => interval(metric, low, high)),
  ], rows, make("div", { class: "tools" }, make("label", {}, "Of ", select)),
  make("p", { class: "note" }, `The ${down ? "largest" : "smallest"} first. `, !repeated ? "" : "Intervals are Student's t over the elements of `repeat:`; one value alone has none. Circles are the single values."));
  drawSweep(rows, title);
}

function drawProvenance() {
  const { run } = view, { provenance: from } = run, section = byId("provenance");
  const list = (object) => make("table", {}, Object.entries(object).map(([name, value]) => make("tr", {}, make("td", { class: "plain" }, name), make("td", {}, make("code", {}, String(value))))));
  const part = (title, content) => make("details", {}, make("summary", {}, title), content);
  section.replaceChildren(section.querySelector("h2"),
    facts([["run", run.run], ["workflow", run.workflow], ["profile", `${run.profile} (${from.scheduler})`], ["submitted", day(run.started)],
      ["frozen by", `dlflow ${from.dlflow}`], ["nodes", from.nodes.join(", ")], ["parameters", Object.entries(from.params).map(([name, value]) => `${name} = ${JSON.stringify(value)}`).join(", ")]]),
    part(`The workflow's text (SHA-256 ${from.workflow_sha256.slice(0, 12)}…)`, make("pre", {}, from.text)),
    Object.keys(from.images).length ? part("Images", list(from.images)) : "",
    Object.keys(from.files).length ? part(`Files that were frozen with the run (${Object.keys(from.files).length})`, list(from.files)) : "");
}

view.onChange((what) => {
  if (what === "time" || what === "job") return;
  drawPictures(); drawWaiting(); drawUsage(); drawAttempts(); drawEnergy();
  if (what === "run") { drawComparison(); drawProvenance(); }
});
