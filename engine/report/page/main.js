// Head, menu, colours and print; then the first run is shown.
function drawHead() {
  const { run } = view, ran = sum(run.jobs.map(runningTime));
  const cores = (job) => (job.asked?.ranks ?? 1) * (job.asked?.cpus_per_rank ?? 1);
  const again = sum(run.jobs.map(requeues)), retries = sum(run.jobs.map((job) => Math.max(0, (job.attempt ?? 1) - 1)));
  document.title = `${run.run}: report of dlflow`;
  byId("run-name").replaceChildren(run.run, " ", badge(run.state));
  byId("run-facts").textContent = `${run.workflow} with profile ${run.profile}, ${day(run.started)}, ${run.ended ? "worked" : "so far"} ${duration(run.worked)}${run.idle ? `, idle ${duration(run.idle)}` : ""}`;
  byId("run-problem").hidden = !run.problem;
  byId("run-problem").textContent = run.problem ?? "";
  const tile = (value, name) => make("div", {}, make("b", {}, value), make("span", {}, name));
  const gone = run.jobs.filter((job) => ["done", "reused"].includes(look(job.state)[1])).length;
  byId("tiles").replaceChildren(
    tile(`${gone.toLocaleString("en")} of ${run.jobs.length.toLocaleString("en")}`, "jobs done"),
    tile(run.jobs.filter((job) => look(job.state)[1] === "wrong").length.toLocaleString("en"), "failed"),
    tile(run.jobs.filter((job) => job.state === "cached").length.toLocaleString("en"), "reused"),
    tile(again.toLocaleString("en"), "requeues"), tile(retries.toLocaleString("en"), "further attempts"),
    tile(number(Number((sum(run.jobs.map((job) => runningTime(job) * cores(job))) / 3600).toPrecision(3))), "core hours"), tile(duration(ran), "running, all jobs"));
}

view.onChange((what) => { if (what === "run") drawHead(); });

for (const section of document.querySelectorAll("main section")) {
  document.querySelector("nav").append(make("a", { href: `#${section.id}` }, section.querySelector("h2").textContent));
}

byId("run-choice").hidden = data.runs.length === 1;
byId("run-select").append(...data.runs.map((run, index) => make("option", { value: String(index) }, run.run)));
byId("run-select").onchange = (event) => view.showRun(data.runs[Number(event.target.value)]);

const redraw = () => { drawGantt(); drawComparison(); if (showsCurves()) drawCurves(); };
const THEMES = ["auto", "light", "dark"];
byId("theme").onclick = () => {
  const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme ?? "auto") + 1) % THEMES.length];
  if (next === "auto") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = next;
  byId("theme").setAttribute("aria-label", `Colours: ${next === "auto" ? "as the system" : next}`);
  redraw();
};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
let themeOnScreen;
/** Prints in light colours, also on canvases. */
function forPrint(on) {
  if (on === printing) return;
  const root = document.documentElement;
  if (on) { themeOnScreen = root.dataset.theme; root.dataset.theme = "light"; }
  else if (themeOnScreen) root.dataset.theme = themeOnScreen; else delete root.dataset.theme;
  printing = on;
  redraw();
}
matchMedia("print").addEventListener("change", (event) => forPrint(event.matches));
window.addEventListener("beforeprint", () => forPrint(true));
window.addEventListener("afterprint", () => forPrint(false));

document.querySelector("footer").append(make("p", {}, `Made by dlflow ${data.dlflow}, ${day(data.made)}. This file is complete in itself and asks no network.`),
  make("details", {}, make("summary", {}, "Curves are drawn by Chart.js; its licence"), make("pre", {}, data.licence)));
view.showRun(data.runs[0]);
