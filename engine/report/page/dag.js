// The steps and their dependencies, in layers from left to right. Each step shows its jobs as cells in the colours of their states.
const BOX = { width: 188, gapX: 46, gapY: 22, cell: 9, perRow: 16, maxCells: 64 };

/**
 * Places nodes in layers from left to right: a step stands right of all steps that it needs. An edge across several layers
 * passes through a point in each layer between. These points are ordered like steps, so that edges never cross a step.
 */
function layersOf(steps) {
  const depth = [];
  const depthOf = (index) => (depth[index] ??= Math.max(-1, ...steps[index].needs.map(([parent]) => depthOf(parent))) + 1);
  const nodes = steps.map((step, index) => ({ index, layer: depthOf(index), near: [] }));
  const edges = steps.flatMap((step, child) => step.needs.map(([parent, each]) => {
    const path = [nodes[parent]];
    for (let layer = depth[parent] + 1; layer < depth[child]; layer += 1) path.push({ index: null, layer, near: [] });
    path.push(nodes[child]);
    for (let i = 1; i < path.length; i += 1) { path[i].near.push(path[i - 1]); path[i - 1].near.push(path[i]); }
    nodes.push(...path.filter((node) => node.index === null));
    return { child, parent, each, path };
  }));
  const layers = [];
  for (const node of nodes) (layers[node.layer] ??= []).push(node);
  const settle = (layer) => layer.forEach((node, position) => { node.place = position - (layer.length - 1) / 2; });
  layers.forEach(settle);
  for (let round = 0; round < 8; round += 1) {
    for (const layer of round % 2 ? [...layers].reverse() : layers) {
      const wanted = new Map(layer.map((node) => [node, node.near.length ? sum(node.near.map((other) => other.place)) / node.near.length : node.place]));
      layer.sort((a, b) => wanted.get(a) - wanted.get(b));
      settle(layer);
    }
  }
  return { layers, edges };
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
  const { layers, edges } = layersOf(steps);
  for (const node of layers.flat()) node.height = node.index === null ? 6 : 58 + cellRows(jobs[node.index]) * (BOX.cell + 2);
  const heightOf = (layer) => sum(layer.map((node) => node.height + BOX.gapY)) - BOX.gapY;
  const tall = Math.max(...layers.map(heightOf)), at = [];
  layers.forEach((layer, column) => {
    let y = 8 + (tall - heightOf(layer)) / 2;
    for (const node of layer) {
      Object.assign(node, { x: 8 + column * (BOX.width + BOX.gapX), y, middle: y + node.height / 2 });
      y += node.height + BOX.gapY;
      if (node.index !== null) at[node.index] = node;
    }
  });
  const width = layers.length * (BOX.width + BOX.gapX) - BOX.gapX + 16;
  const svg = makeSvg("svg", { width, height: tall + 16, viewBox: `0 0 ${width} ${tall + 16}`, role: "group", "aria-label": "Steps and what they wait for" });
  const bend = BOX.gapX / 2;
  for (const { child, parent, each, path } of edges) {
    const along = path.slice(1).map((to, i) => {
      const from = path[i], left = from.x + BOX.width;
      return `${i ? `L${left} ${from.middle}` : `M${left} ${from.middle}`} C${left + bend} ${from.middle} ${to.x - bend} ${to.middle} ${to.x} ${to.middle}`;
    });
    svg.append(makeSvg("path", { class: each ? "each" : "", d: along.join(" ") },
      makeSvg("title", {}, `${steps[child].name} waits for ${steps[parent].name}${each ? ", job for job" : ""}`)));
  }
  steps.forEach((step, index) => {
    const { x, y } = at[index];
    const node = makeSvg("g", { class: "node", transform: `translate(${x} ${y})`, tabindex: "0", role: "button", "aria-pressed": view.step === index,
      "aria-label": `${step.name}, ${step.kind}: ${countText(jobs[index])}` },
      makeSvg("rect", { class: "box", width: BOX.width, height: at[index].height, rx: 7 }),
      makeSvg("text", { class: "name", x: 12, y: 21 }, short(step.name, 24)), makeSvg("title", {}, `${step.name}: ${countText(jobs[index])}`),
      makeSvg("text", { class: "quiet", x: 12, y: 37 }, short(`${step.kind} · ${countText(jobs[index])}`, 29)), cells(jobs[index], 46));
    const choose = () => { view.step = view.step === index ? null : index; view.filter(); };
    node.onclick = choose;
    node.onkeydown = (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      choose();
    };
    svg.append(node);
  });
  const focused = [...byId("dag").querySelectorAll(".node")].indexOf(document.activeElement);
  byId("dag").replaceChildren(svg);
  if (focused >= 0) svg.querySelectorAll(".node")[focused]?.focus();
}

view.onChange((what) => { if (what === "run" || what === "jobs") drawDag(); });
