// Jobs over time. Only visible rows are drawn, on one canvas that stays in place while the list scrolls.
const ROW = 20, AXIS = 22, STRIP = 52, PRINTED_ROWS = 80;
const gantt = byId("gantt"), overview = byId("overview"), rows = byId("gantt-rows");
const canvas = rows.querySelector("canvas"), space = rows.querySelector(".space");
let printing = false, dragged = null, LABEL = 210;

/** The canvas in CSS pixels, cleared. */
function prepared(target, width, height) {
  const ratio = window.devicePixelRatio || 1;
  target.width = width * ratio; target.height = height * ratio;
  target.style.width = `${width}px`; target.style.height = `${height}px`;
  const pen = target.getContext("2d");
  pen.scale(ratio, ratio);
  pen.font = "12px system-ui, 'DejaVu Sans', sans-serif";
  pen.textBaseline = "middle";
  return pen;
}

const innerWidth = () => gantt.clientWidth;
const x = (seconds) => LABEL + ((seconds - view.from) / (view.to - view.from)) * (innerWidth() - LABEL - 12);
const timeAt = (pixels) => view.from + ((pixels - LABEL) / (innerWidth() - LABEL - 12)) * (view.to - view.from);

function ticks() {
  const steps = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800];
  const step = steps.find((size) => (view.to - view.from) / size <= innerWidth() / 130) ?? 2592000;
  const { folds } = view.run, list = [], next = (seconds) => Math.ceil(seconds / step) * step;
  const pieces = [0, ...folds.map((fold) => fold.to)].map((from, index) => [from, folds[index]?.from ?? Infinity, from ? folds[index - 1].at + folds[index - 1].kept : 0]);
  for (const [from, to, place] of pieces) {
    const last = Math.min(to, realTime(view.to));
    for (let at = next(Math.max(from, realTime(view.from))); at <= last; at += step) list.push([at - from + place, step < 1 ? `${at.toFixed(2)} s` : duration(Math.round(at))]);
  }
  return list;
}

/** The mean number of waiting and running jobs in each of `columns` equal parts of the visible time. Means keep short jobs visible. */
function crowds(columns) {
  const jobs = { waiting: new Float64Array(columns + 1), running: new Float64Array(columns + 1) };
  const change = { waiting: new Float64Array(columns + 2), running: new Float64Array(columns + 2) };
  const column = (seconds) => Math.min(columns, Math.max(0, ((seconds - view.from) / (view.to - view.from)) * columns));
  for (const job of view.jobs) {
    for (const span of job.spans) {
      const kind = isRunning(span) ? "running" : "waiting", begin = column(span[3]), end = column(endOf(span));
      const first = Math.floor(begin), last = Math.floor(end);
      if (first === last) { jobs[kind][first] += end - begin; continue; }
      jobs[kind][first] += first + 1 - begin;
      jobs[kind][last] += end - last;
      change[kind][first + 1] += 1;
      change[kind][last] -= 1;
    }
  }
  for (const kind of ["waiting", "running"]) {
    let whole = 0;
    for (let i = 0; i <= columns; i += 1) { whole += change[kind][i]; jobs[kind][i] += whole; }
  }
  return jobs;
}

/** The largest number of jobs that ran at the same time. */
function mostAtATime() {
  const spans = view.jobs.flatMap((job) => job.spans.filter(isRunning));
  const begins = spans.map((span) => span[3]).sort((a, b) => a - b), ends = spans.map(endOf).sort((a, b) => a - b);
  let most = 0;
  for (let begun = 0, ended = 0; begun < begins.length; begun += 1) {
    while (ends[ended] <= begins[begun]) ended += 1;
    most = Math.max(most, begun + 1 - ended);
  }
  return most;
}

function drawOverview() {
  const width = innerWidth(), pen = prepared(overview, width, STRIP + AXIS), columns = Math.max(1, Math.floor(width - LABEL - 12));
  const { waiting, running } = crowds(columns);
  let most = 0.001;
  for (let i = 0; i < columns; i += 1) most = Math.max(most, waiting[i] + running[i]);
  const colors = { running: color("running"), queue: color("queue") };
  for (let i = 0; i < columns; i += 1) {
    const low = (running[i] / most) * (STRIP - 8), high = (waiting[i] / most) * (STRIP - 8);
    pen.fillStyle = colors.running; pen.fillRect(LABEL + i, STRIP - low, 1, low);
    pen.fillStyle = colors.queue; pen.fillRect(LABEL + i, STRIP - low - high, 1, high);
  }
  pen.fillStyle = color("quiet");
  pen.fillText(fitted(pen, `at most ${plural(mostAtATime(), "job")} at a time`, LABEL - 12), 8, 12);
  ["running", "queued", "lost or requeued"].filter((name, index) => index < 2 || view.jobs.some((job) => job.spans.some(isLost))).forEach((name, index) => {
    const left = index === 1 && LABEL > 150 ? 76 : 8, top = index === 0 || left === 76 ? 24 : LABEL > 150 ? 40 : 24 + 16 * index;
    pen.fillStyle = color(["running", "queue", "lost"][index]); pen.fillRect(left, top, 9, 9);
    pen.fillStyle = color("quiet"); pen.fillText(fitted(pen, name, LABEL - left - 15), left + 13, top + 5);
  });
  for (const { at, kept, from, to } of view.run.folds) {
    const text = `┆ idle ${duration(to - from)}`;
    pen.fillStyle = color("page"); pen.fillRect(x(at), 0, x(at + kept) - x(at), STRIP); pen.fillRect(x(at), 2, pen.measureText(text).width + 6, 18);
    pen.fillStyle = color("quiet"); pen.fillText(text, x(at) + 2, 12);
  }
  pen.fillStyle = color("quiet");
  for (const [at, text] of ticks()) {
    pen.fillRect(x(at), STRIP, 1, 4);
    pen.fillText(text, x(at) + 4, STRIP + 12);
  }
  if (dragged) {
    pen.globalAlpha = 0.25; pen.fillStyle = color("focus");
    pen.fillRect(Math.min(dragged.from, dragged.to), 0, Math.abs(dragged.to - dragged.from), STRIP);
  }
}

/** `text` cut to `width`. */
function fitted(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle; else high = middle - 1;
  }
  return `${text.slice(0, low)}…`;
}

function drawRow(pen, job, y, width) {
  if (job === view.job) { pen.fillStyle = color("chosen"); pen.fillRect(0, y, width, ROW); }
  const [symbol, kind] = look(job.state), middle = y + ROW / 2;
  pen.fillStyle = color(kind); pen.fillText(symbol, 8, middle);
  pen.fillStyle = color("text"); pen.fillText(fitted(pen, job.name, LABEL - 34), 24, middle);
  pen.save();
  pen.beginPath(); pen.rect(LABEL, y, width - LABEL, ROW); pen.clip();
  for (const span of job.spans) {
    const left = x(span[3]), long = Math.max(1.5, x(endOf(span)) - left);
    if (left > width || left + long < LABEL) continue;
    if (isRunning(span)) {
      pen.fillStyle = color(isLost(span) ? "lost" : span[5] === null ? "running" : look(span[5])[1]);
      pen.fillRect(left, y + 4, long, ROW - 8);
      if (span[2] > 1 && long > 26) { pen.fillStyle = color("page"); pen.fillText(`↻${span[2]}`, left + 4, middle); }
    } else {
      pen.fillStyle = color("queue"); pen.fillRect(left, middle - 1.5, long, 3);
    }
  }
  pen.restore();
}

function drawRows() {
  const width = innerWidth(), count = view.jobs.length;
  const visible = printing ? Math.min(count, PRINTED_ROWS) * ROW : Math.min(rows.clientHeight || 416, Math.max(count, 1) * ROW);
  const first = printing ? 0 : Math.floor(rows.scrollTop / ROW), offset = printing ? 0 : first * ROW - rows.scrollTop;
  const pen = prepared(canvas, width, Math.max(visible, ROW));
  pen.fillStyle = color("line");
  for (const [at] of ticks()) pen.fillRect(x(at), 0, 1, visible);
  for (let i = 0; first + i < count && i * ROW + offset < visible; i += 1) drawRow(pen, view.jobs[first + i], i * ROW + offset, width);
  if (count === 0) { pen.fillStyle = color("quiet"); pen.fillText("No job is like that.", 8, ROW / 2); }
}

function drawGantt() {
  LABEL = Math.min(300, Math.max(110, innerWidth() * 0.3));
  const height = Math.max(view.jobs.length, 1) * ROW, shown = Math.min(height, 416);
  rows.style.height = printing ? "auto" : `${shown}px`;
  space.style.height = printing ? "0" : `${height - shown}px`;
  drawOverview();
  drawRows();
  byId("shown").textContent = view.jobs.length === view.run.jobs.length ? plural(view.jobs.length, "job")
    : `${view.jobs.length.toLocaleString("en")} of ${plural(view.run.jobs.length, "job")}`;
}

function announce() {
  const { job } = view, option = byId("gantt-current");
  option.textContent = job ? `${job.name}, ${job.state}, ${duration(lastRan(job))}${job.reason ? `, ${job.reason}` : ""}` : "";
  option.setAttribute("aria-selected", job !== null);
  if (job) gantt.setAttribute("aria-activedescendant", option.id); else gantt.removeAttribute("aria-activedescendant");
}

function reveal(index) {
  if (index * ROW < rows.scrollTop) rows.scrollTop = index * ROW;
  if ((index + 1) * ROW > rows.scrollTop + rows.clientHeight) rows.scrollTop = (index + 1) * ROW - rows.clientHeight;
}

function selectRow(index) {
  if (view.jobs.length === 0) return;
  const within = Math.min(Math.max(index, 0), view.jobs.length - 1);
  reveal(within);
  view.select(view.jobs[within]);
}

const KEYS = {
  ArrowDown: () => selectRow(view.jobs.indexOf(view.job) + 1),
  ArrowUp: () => selectRow(view.job ? view.jobs.indexOf(view.job) - 1 : 0),
  PageDown: () => selectRow(view.jobs.indexOf(view.job) + 20),
  PageUp: () => selectRow(view.jobs.indexOf(view.job) - 20),
  Home: () => selectRow(0),
  End: () => selectRow(view.jobs.length - 1),
  ArrowLeft: () => view.move(-0.2),
  ArrowRight: () => view.move(0.2),
  "+": () => view.zoom(0.5),
  "=": () => view.zoom(0.5),
  "-": () => view.zoom(2),
  0: () => view.show(0, view.run.length),
  Escape: () => view.select(null),
};
gantt.onkeydown = (event) => {
  const act = KEYS[event.key];
  if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  act();
};
gantt.addEventListener("wheel", (event) => {
  if (!event.ctrlKey && !event.shiftKey) return;  // the list scrolls
  event.preventDefault();
  view.zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(event.clientX - gantt.getBoundingClientRect().left));
}, { passive: false });
rows.onscroll = drawRows;
canvas.onclick = (event) => {
  const index = Math.floor((event.clientY - rows.getBoundingClientRect().top + rows.scrollTop) / ROW);
  if (index < view.jobs.length) selectRow(index);
};
canvas.onmousemove = (event) => {
  const job = view.jobs[Math.floor((event.clientY - rows.getBoundingClientRect().top + rows.scrollTop) / ROW)];
  canvas.title = job ? `${job.name}: ${job.state}, ran ${duration(lastRan(job))}` : "";
};
overview.onpointerdown = (event) => {
  overview.setPointerCapture(event.pointerId);
  dragged = { from: event.offsetX, to: event.offsetX };
};
overview.onpointermove = (event) => { if (dragged) { dragged.to = event.offsetX; drawOverview(); } };
overview.onpointerup = () => {
  const { from, to } = dragged;
  dragged = null;
  if (Math.abs(to - from) > 4) view.show(timeAt(Math.min(from, to)), timeAt(Math.max(from, to))); else drawOverview();
};

byId("zoom-in").onclick = () => view.zoom(0.5);
byId("zoom-out").onclick = () => view.zoom(2);
byId("zoom-all").onclick = () => view.show(0, view.run.length);
byId("filter").oninput = (event) => { view.words = event.target.value; rows.scrollTop = 0; view.filter(); };
byId("order").onchange = (event) => { view.order = event.target.value; view.filter(); };

function drawStates() {
  const counts = countsOf(view.run.jobs);
  byId("states").replaceChildren(...[...counts].map(([state, count]) => make("button", {
    type: "button", class: look(state)[1], "aria-pressed": String(!view.hidden.has(state)),
    onclick: () => { if (!view.hidden.delete(state)) view.hidden.add(state); view.filter(); byId("states").querySelector(`[data-state="${state}"]`).focus(); },
    "data-state": state }, `${look(state)[0]} ${count.toLocaleString("en")} ${state}`)));
  if (byId("filter").value !== view.words) byId("filter").value = view.words;
}

view.onChange((what) => {
  if (what === "run") rows.scrollTop = 0;
  if (what === "run" || what === "jobs") drawStates();
  if (what === "job") drawRows(); else drawGantt();
  announce();
});
window.addEventListener("resize", drawGantt);
