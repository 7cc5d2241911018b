// The selected job, beside the timeline.
function facts(pairs) {
  return make("dl", {}, pairs.filter(([, value]) => value !== "" && value !== undefined && value !== null)
    .flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}

function passText(span) {
  const outcome = span[5] === "queued" ? "requeued" : span[5] ?? "runs";
  return `${outcome}${span[7] ? `: ${span[7]}` : ""}`;
}

function drawDetails() {
  const { job, run } = view, panel = byId("details");
  panel.classList.toggle("none", job === null);
  if (!job) { panel.replaceChildren(make("p", { class: "quiet" }, "Select a job: click on its row, or press ↓ on the list.")); return; }
  const passes = job.spans.filter(isRunning), waited = sum(job.spans.filter((span) => !isRunning(span)).map((span) => endOf(span) - span[3]));
  const metrics = inMetricOrder(Object.keys(job.metrics ?? {})).map((name) => [name, job.metrics[name]]);
  panel.replaceChildren(
    make("h3", {}, job.name), badge(job.state), job.reason ? make("p", {}, job.reason) : "",
    facts([
      ["ran", passes.length ? duration(lastRan(job)) : ""], ["in all attempts", job.attempt > 1 ? duration(runningTime(job)) : ""], ["waited", waited >= 1 ? duration(waited) : ""], ["node", job.node],
      ["job id", job.id], ["attempt", job.attempt ? String(job.attempt) : ""], ["exit", job.exit !== undefined ? String(job.exit) : ""],
    ]),
    passes.length > 1 ? make("h3", {}, "Passes") : "",
    passes.length > 1 ? facts(passes.map((span) => [`${span[1]}.${span[2]}`, `${duration(endOf(span) - span[3])} on ${span[6] || "?"}, ${passText(span)}`])) : "",
    metrics.length ? make("h3", {}, "Metrics") : "", metrics.length ? facts(metrics.map(([name, value]) => [nameOfMetric(name), number(value)])) : "",
    job.attempt ? make("p", {}, make("code", {}, `dlflow logs ${run.run} '${job.name}'`)) : "");
}

view.onChange((what) => { if (what !== "time") drawDetails(); });
