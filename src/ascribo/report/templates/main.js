// The map of the first screen, training, the shift test, and the start of everything.
function startMap() {
  const canvas = byId("map");
  picture(canvas, () => mapHeight(arranged.length), (context, width, height) =>
    heatMap(context, { x: 0, width, height, labels: true }, arranged, (s, c) => score("score", s, c), (s) => tops[s],
      { called: facts.spaces.some((space) => space.tested) }));
  canvas.addEventListener("click", (event) => {
    const box = canvas.getBoundingClientRect();
    const place = Math.floor((event.clientY - box.top - HEAD) / rowHeight(arranged.length, box.height));
    if (place >= 0 && place < arranged.length) change({ channel: arranged[place] });
  });
  canvas.addEventListener("keydown", (event) => {
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const at = arranged.indexOf(state.channel) + by;
    change({ channel: arranged[Math.max(0, Math.min(arranged.length - 1, at))] });
  });
  whenChanged((what) => what.includes("channel") && redraw(canvas));
  redraw(canvas);
}

async function startTraining() {
  const history = await array("history"), [spaces, seeds, points] = history.shape;
  const canvas = byId("training");
  if (!spaces || !points) { canvas.hidden = true; return; }
  const x = facts.history.steps, lines = [], at = (s, k, p) => history.data[(s * seeds + k) * points + p];
  const place = (name) => Math.max(0, facts.spaces.findIndex((space) => space.name === name));
  for (let s = 0; s < spaces; s++) {
    const own = Array.from({ length: seeds }, (_, k) => Array.from({ length: points }, (_, p) => at(s, k, p)));
    const mean = x.map((_, p) => {
      const known = own.map((curve) => curve[p]).filter(Number.isFinite);
      return known.reduce((a, b) => a + b, 0) / known.length;
    });
    for (const y of own) lines.push({ y, s, width: 1, alpha: 0.35 });
    lines.push({ y: mean, s, width: 2 });
  }
  const atChance = facts.history.chance.filter((value) => value !== null)[0];
  picture(canvas, () => 220, (context, width, height) => {
    const all = lines.map((line) => ({ ...line, x, colour: spaceColour(place(facts.history.curves[line.s])) }));
    if (atChance !== undefined) all.push({ x: [x[0], x[x.length - 1]], y: [atChance, atChance], colour: css("--soft"), dash: [6, 4], width: 1.5 });
    const axes = lineChart(context, width, height, all, { label: "training step" });
    if (!axes) return;
    context.textAlign = "right";
    context.fillStyle = css("--soft");
    if (atChance !== undefined) context.fillText("chance", width - 12, axes.py(atChance) + 10);
  });
  byId("training-legend").replaceChildren(...facts.history.curves.map((name) => {
    const item = make("span");
    item.append(make("span", null, { class: `swatch s${place(name) % 7}`, "aria-hidden": "true" }), named(name, 40));
    return item;
  }));
  redraw(canvas);
}

async function startNull() {
  const canvas = byId("null"), tests = facts.shift;
  if (!canvas || !tests) return;
  const ends = tests.flatMap((test) => [test.score_low, test.score_high, test.null_mean, test.null_high, test.score, ...test.copies]).filter(Number.isFinite);
  const high = Math.max(...ends), low = Math.min(0, ...ends), single = tests.some((test) => test.copies.length);
  picture(canvas, () => 34 + 26 * tests.length, (context, width, height) => {
    const left = Math.min(120, width * 0.3), px = (v) => left + 10 + ((v - low) / (high - low || 1)) * (width - left - 30);
    tests.forEach((test, k) => {
      const y = 16 + 26 * k;
      context.fillStyle = css("--ink");
      context.textAlign = "right";
      context.fillText(fitted(context, drawn(test.space, 24), left - 8), left - 6, y);
      context.fillStyle = css("--line");
      if (!test.copies.length) context.fillRect(px(low), y - 7, px(test.null_high) - px(low), 14);
      context.fillStyle = css("--soft");
      for (const score of test.copies) context.fillRect(px(score) - 0.75, y - 8, 1.5, 16);
      context.strokeStyle = context.fillStyle = spaceColour(Math.max(0, facts.spaces.findIndex((space) => space.name === test.space)));
      context.lineWidth = 2;
      context.beginPath();
      context.moveTo(px(test.score_low ?? test.score), y);
      context.lineTo(px(test.score_high ?? test.score), y);
      context.stroke();
      context.beginPath();
      context.arc(px(test.score), y, 6, 0, 7);
      context.fill();
    });
    context.lineWidth = 1;
    context.fillStyle = css("--soft");
    context.textAlign = "center";
    const grey = single ? "each grey line a shifted copy" : "grey is where 95% of the shifted copies lie";
    context.fillText(fitted(context, [...new Set(tests.map((test) => test.unit))].join(", ") + ": the dot is the real recording, " + grey, width - 8), width / 2, height - 8);
  });
  redraw(canvas);
}

function startKeys() {
  byId("copy").addEventListener("click", async () => {
    const text = byId("methods-text").textContent;
    try { await navigator.clipboard.writeText(text); byId("copied").textContent = "Copied."; }
    catch {
      const range = document.createRange();
      range.selectNodeContents(byId("methods-text"));
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      byId("copied").textContent = "The paragraph is selected: copy it with the keyboard.";
    }
  });
}

async function start() {
  [table, called] = await Promise.all([array("table"), array("called")]);
  arrange();
  state.channel = arranged[0] ?? 0;
  startTables();
  startMap();
  startKeys();
  await startChannel();
  await startEmbedding();
  await startTraining();
  await startNull();
  document.documentElement.dataset.ready = "yes";
  await startTime();
  document.documentElement.dataset.whole = "yes";
  let waiting = null;
  addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(redrawAll, 100); });
  dark.addEventListener("change", () => { redrawAll(); fillTable(); });
  addEventListener("beforeprint", redrawAll);
  addEventListener("afterprint", redrawAll);
}
start();
