// The steps and what waits for what: layers from left to right, each step with its jobs as cells in the colours of their states.
const BOX = { width: 196, gapX: 64, gapY: 22, cell: 9, perRow: 16, maxCells: 64 };

/** Steps of each layer: a step stands right of all that it needs, near the middle of what it is joined to. */
function layersOf(steps) {
  const depth = [];
  const depthOf = (index) => (depth[index] ??= Math.max(-1, ...steps[index].needs.map(([parent]) => depthOf(parent))) + 1);
  const layers = [];
  steps.forEach((step, index) => (layers[depthOf(index)] ??= []).push(index));
  const place = steps.map(() => 0);
  const settle = (layer) => layer.forEach((index, position) => { place[index] = position - (layer.length - 1) / 2; });
  layers.forEach(settle);
  for (let round = 0; round < 4; round += 1) {
    for (const layer of layers) {
      const middle = (index) => {
        const near = [...steps[index].needs.map(([parent]) => parent), ...steps.flatMap((step, child) => step.needs.some(([p]) => p === index) ? [child] : [])];
        return near.length ? sum(near.map((other) => place[other])) / near.length : place[index];
      };
      const wanted = new Map(layer.map((index) => [index, middle(index)]));
      layer.sort((a, b) => wanted.get(a) - wanted.get(b));
      settle(layer);
    }
  }
  return layers;
}

function countsOf(jobs) {
  const counts = new Map();
  for (const job of jobs) counts.set(job.state, (counts.get(job.state) ?? 0) + 1);
  return counts;
}

function countText(jobs) {
  if (jobs.length === 1) return `${look(jobs[0].state)[0]} ${jobs[0].state}`;
  return [...countsOf(jobs)].map(([state, count]) => `${count.toLocaleString("en")} ${state}`).join(", ");
}

function cells(jobs, y) {
  const group = makeSvg("g", {});
  if (jobs.length <= BOX.maxCells) {
    jobs.forEach((job, index) => group.append(makeSvg("rect", {
      class: look(job.state)[1], x: 12 + (index % BOX.perRow) * (BOX.cell + 2), y: y + Math.floor(index / BOX.perRow) * (BOX.cell + 2),
      width: BOX.cell, height: BOX.cell, rx: 2 }, makeSvg("title", {}, `${job.name}: ${job.state}`))));
    return group;
  }
  let x = 12;
  for (const [state, count] of countsOf(jobs)) {
    const width = ((BOX.width - 24) * count) / jobs.length;
    group.append(makeSvg("rect", { class: look(state)[1], x, y, width: Math.max(width, 1), height: BOX.cell }, makeSvg("title", {}, `${count} ${state}`)));
    x += width;
  }
  return group;
}

const cellRows = (jobs) => (jobs.length <= BOX.maxCells ? Math.ceil(jobs.length / BOX.perRow) : 1);
const short = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

function drawDag() {
  const { steps } = view.run;
  const jobs = steps.map((step, index) => view.run.jobs.filter((job) => job.step === index));
  const height = (index) => 58 + cellRows(jobs[index]) * (BOX.cell + 2);
  const layers = layersOf(steps);
  const tall = Math.max(...layers.map((layer) => sum(layer.map((index) => height(index) + BOX.gapY)) - BOX.gapY));
  const at = [];
  layers.forEach((layer, column) => {
    let y = 8 + (tall - (sum(layer.map((index) => height(index) + BOX.gapY)) - BOX.gapY)) / 2;
    for (const index of layer) {
      at[index] = { x: 8 + column * (BOX.width + BOX.gapX), y, height: height(index) };
      y += height(index) + BOX.gapY;
    }
  });
  const width = layers.length * (BOX.width + BOX.gapX) - BOX.gapX + 16;
  const svg = makeSvg("svg", { width, height: tall + 16, viewBox: `0 0 ${width} ${tall + 16}`, role: "group", "aria-label": "Steps and what they wait for" });
  steps.forEach((step, child) => step.needs.forEach(([parent, each]) => {
    const from = { x: at[parent].x + BOX.width, y: at[parent].y + at[parent].height / 2 }, to = { x: at[child].x, y: at[child].y + at[child].height / 2 };
    const bend = Math.max(30, (to.x - from.x) / 2);
    svg.append(makeSvg("path", { class: each ? "each" : "", d: `M${from.x} ${from.y} C${from.x + bend} ${from.y} ${to.x - bend} ${to.y} ${to.x} ${to.y}` },
      makeSvg("title", {}, `${step.name} waits for ${steps[parent].name}${each ? ", job for job" : ""}`)));
  }));
  steps.forEach((step, index) => {
    const { x, y } = at[index];
    const node = makeSvg("g", { class: "node", transform: `translate(${x} ${y})`, tabindex: "0", role: "button", "aria-pressed": view.step === index,
      "aria-label": `${step.name}, ${step.kind}: ${countText(jobs[index])}` },
      makeSvg("rect", { class: "box", width: BOX.width, height: at[index].height, rx: 7 }),
      makeSvg("text", { class: "name", x: 12, y: 21 }, short(step.name, 24)), makeSvg("title", {}, `${step.name}: ${countText(jobs[index])}`),
      makeSvg("text", { class: "quiet", x: 12, y: 37 }, short(`${step.kind} · ${countText(jobs[index])}`, 33)), cells(jobs[index], 46));
    const choose = () => { view.step = view.step === index ? null : index; view.filter(); };
    node.onclick = choose;
    node.onkeydown = (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      choose();
      byId("dag").querySelectorAll(".node")[index].focus();
    };
    svg.append(node);
  });
  byId("dag").replaceChildren(svg);
}

view.onChange((what) => { if (what === "run" || what === "jobs") drawDag(); });
