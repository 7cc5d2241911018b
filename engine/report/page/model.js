// The data of the page and the selection. Texts of runs reach the page only as text, never as markup.
const data = JSON.parse(document.getElementById("data").textContent);

const STATES = {
  succeeded: ["✔", "done"], cached: ["✔", "reused"], running: ["▶", "running"], failed: ["✘", "wrong"], "timed-out": ["✘", "wrong"],
  lost: ["✘", "wrong"], cancelled: ["■", "stopped"], blocked: ["■", "stopped"], interrupted: ["■", "stopped"], planned: ["·", "waiting"],
  submitting: ["·", "waiting"], queued: ["·", "waiting"], skipped: ["·", "waiting"],
};
const look = (state) => STATES[state] ?? ["·", "waiting"];

/** Makes an element. Attributes that are functions become properties; children that are not elements become text. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element[name] = value;
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

function makeSvg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const byId = (id) => document.getElementById(id);
const badge = (state) => make("span", { class: `state ${look(state)[1]}` }, `${look(state)[0]} ${state}`);
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const sum = (numbers) => numbers.reduce((all, number) => all + number, 0);
const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

/** As on a stop watch: 0:02, 12:05, 1:02:10, 2-03:00:00. */
function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const two = (number) => String(number).padStart(2, "0");
  const days = Math.floor(whole / 86400), hours = Math.floor(whole / 3600) % 24, minutes = Math.floor(whole / 60) % 60;
  const end = `${two(whole % 60)}`;
  if (days) return `${days}-${two(hours)}:${two(minutes)}:${end}`;
  return hours ? `${hours}:${two(minutes)}:${end}` : `${minutes}:${end}`;
}

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; bytes >= 1024 && unit < units.length - 1; unit += 1) bytes /= 1024;
  return `${bytes >= 100 || unit === 0 ? Math.round(bytes) : bytes.toFixed(1)} ${units[unit]}`;
}

function number(value) {
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : Number(value.toPrecision(4)).toString();
}

/** Uses the same number of digits as the other values of its column. */
const digits = (value) => (Math.abs(value) >= 1000 ? number(value) : value.toPrecision(4));

const percent = (share) => `${Math.round(100 * share)} %`;
const day = (text) => text.replace("T", " ").replace(/\.\d+Z$/, " UTC");

// A span of a job is [running?, attempt, pass, begin, end or null, outcome, node, cause], in seconds after the run began.
const isRunning = (span) => span[0] === 1;
const endOf = (span) => span[4] ?? view.run.length;
const runningTime = (job) => sum(job.spans.filter(isRunning).map((span) => endOf(span) - span[3]));
/** The time of the last attempt, from its first start, as `status` shows it. */
const lastRan = (job) => {
  const passes = job.spans.filter((span) => isRunning(span) && span[1] === job.spans.at(-1)[1]);
  return passes.length ? endOf(passes.at(-1)) - passes[0][3] : 0;
};
const isLost = (span) => isRunning(span) && ["queued", "lost"].includes(span[5]);
const requeues = (job) => job.spans.filter((span) => isRunning(span) && span[5] === "queued").length;

/** The selection. `changed` calls all drawers; `what` is "run", "jobs" (the filter), "time" or "job" (the selected one). */
const view = {
  run: data.runs[0], jobs: [], job: null, step: null, words: "", hidden: new Set(), order: "plan", from: 0, to: 1, drawers: [],
  onChange(drawer) { this.drawers.push(drawer); },
  changed(what) { for (const drawer of this.drawers) drawer(what); },

  showRun(run) {
    Object.assign(this, { run, job: null, step: null, words: "", from: 0, to: run.length });
    this.hidden.clear();
    this.filter("run");
  },
  filter(what = "jobs") {
    const words = this.words.toLowerCase().split(/\s+/).filter(Boolean);
    this.jobs = this.run.jobs.filter((job) => !this.hidden.has(job.state) && (this.step === null || job.step === this.step) &&
      words.every((word) => job.searched.includes(word)));
    const start = (job) => job.spans[0]?.[3] ?? Infinity;
    if (this.order === "start") this.jobs.sort((a, b) => start(a) - start(b));
    if (this.order === "duration") this.jobs.sort((a, b) => runningTime(b) - runningTime(a));
    if (this.job && !this.jobs.includes(this.job)) this.job = null;
    this.changed(what);
  },
  select(job) { this.job = job; this.changed("job"); },
  show(from, to) {
    const length = this.run.length, span = Math.min(Math.max(to - from, length / 5000), length);
    this.from = Math.min(Math.max(0, from), length - span);
    this.to = this.from + span;
    this.changed("time");
  },
  zoom(factor, at = (this.from + this.to) / 2) { this.show(at - (at - this.from) * factor, at + (this.to - at) * factor); },
  move(share) { const by = share * (this.to - this.from); this.show(this.from + by, this.to + by); },
};

/**
 * Folds times of five seconds or more in which no job waited or ran, for example before a repair: moves spans and curves
 * together and lists the places in run.folds. realTime() is the inverse, for the labels of axes.
 */
function foldIdle(run) {
  const spans = run.jobs.flatMap((job) => job.spans).sort((a, b) => a[3] - b[3]), gaps = [];
  let end = 0;
  for (const span of spans) {
    if (span[3] - end >= 5) gaps.push([end, span[3]]);
    end = Math.max(end, span[4] ?? run.length);
  }
  if (spans.length > 0 && run.length - end >= 5) gaps.push([end, run.length]);
  run.idle = sum(gaps.map(([from, to]) => to - from));
  run.worked = run.length - run.idle;
  const kept = run.worked / 40;
  let folded = 0;
  run.folds = gaps.filter(([from, to]) => to - from > 4 * kept).map(([from, to]) => {
    const fold = { from, to, at: from - folded, kept };
    folded += to - from - kept;
    return fold;
  });
  const shown = (seconds) => {
    const fold = run.folds.findLast(({ from }) => from < seconds);
    return fold ? Math.max(fold.at, seconds - fold.to + fold.at + fold.kept) : seconds;
  };
  for (const { spans: own, curves } of run.jobs) {
    for (const span of own) { span[3] = shown(span[3]); if (span[4] !== null) span[4] = shown(span[4]); }
    for (const curve of curves ?? []) curve.at = curve.at.map((at) => at === null ? null : shown(at));
  }
  run.length -= folded;
}

function realTime(seconds) {
  const fold = view.run.folds.findLast(({ at }) => at < seconds);
  return fold ? Math.max(fold.from, seconds - fold.at - fold.kept + fold.to) : seconds;
}

for (const run of data.runs) {
  foldIdle(run);
  run.length = Math.max(run.length, 0.001);
  for (const job of run.jobs) {
    job.searched = [job.name, job.state, job.id, job.reason, ...job.spans.flatMap((span) => [span[6], span[7]])].join(" ").toLowerCase();
  }
}
