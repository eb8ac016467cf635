// The embedding as a cloud of points that turns, in the colour of a variable, of time, or of the chosen channel.
const view = { yaw: 0.6, pitch: 0.35, space: 0, colour: "time" };

async function startEmbedding() {
  const [points, times, values, steps, some] = await Promise.all(
    ["points", "point_time", "point_values", "point_step", "activity_points"].map(array));
  const count = points.shape[1], canvas = byId("cloud");
  const names = Object.keys(facts.dims);
  byId("which-space").replaceChildren(...names.map((name, k) => make("option", shown(name, 40), { value: k })));
  const choices = [["time", "time"], ["channel", "the chosen channel"],
    ...facts.variables.map((variable, k) => ["v" + k, shown(variable.name, 40)])];
  byId("colour").replaceChildren(...choices.map(([value, text]) => make("option", text, { value })));
  const first = facts.variables.length ? "v0" : "time";
  byId("colour").value = view.colour = first;

  // Coordinates of the chosen space: the middle of what most points span, and of one size.
  let coordinates = null;
  function choose() {
    const [start, stop] = facts.dims[names[view.space]];
    const dims = Math.min(3, stop - start);
    coordinates = [];
    let widest = 0;
    for (let d = 0; d < dims; d++) {
      const own = points.data.subarray((start + d) * count, (start + d + 1) * count);
      const inOrder = Float32Array.from(own).sort(); // a few far points may lie outside
      const low = inOrder[Math.floor(0.005 * (count - 1))], high = inOrder[Math.ceil(0.995 * (count - 1))];
      coordinates.push(Float32Array.from(own, (v) => v - (low + high) / 2));
      widest = Math.max(widest, (high - low) / 2);
    }
    for (const own of coordinates) for (let k = 0; k < count; k++) own[k] /= widest || 1;
    for (const button of document.querySelectorAll("[data-turn]")) button.disabled = dims < 3;
  }

  // For each point a colour or null: it is not known there.
  let colours = [], colouring = { kind: "number", range: [0, 1], labels: [] };
  async function colour() {
    const kind = view.colour;
    let own = times.data, about = { kind: "number", labels: [], label: "time" };
    if (kind === "channel") {
      const activity = await row("activity", state.channel);
      own = new Float32Array(count).fill(NaN);
      some.data.forEach((place, k) => (own[place] = activity[k]));
      about = { kind: "number", labels: [], label: facts.channels[state.channel] };
    } else if (kind[0] === "v") {
      const k = Number(kind.slice(1)), variable = facts.variables[k];
      own = values.data.subarray(k * count, (k + 1) * count);
      about = { kind: variable.kind, labels: variable.labels, label: variable.name, range: variable.range };
    }
    let low = Infinity, high = -Infinity;
    for (const v of own) if (Number.isFinite(v)) { low = Math.min(low, v); high = Math.max(high, v); }
    colouring = { ...about, range: about.kind === "number" ? [low, high] : about.range };
    const [a, b] = colouring.range;
    colours = Array.from(own, (v) => !Number.isFinite(v) ? null
      : about.kind === "label" ? labelColour(v, about.labels.length) : ramp(about.kind, (v - a) / (b - a || 1)));
    legend();
  }

  function legend() {
    const box = byId("legend");
    const title = make("span");
    title.append("Colour: ", named(colouring.label, 40));
    if (colouring.kind === "label") {
      const count = colouring.labels.length;
      const toName = count > LABELS.length ? [...colouring.labels.slice(0, FEW), "all others"] : colouring.labels;
      box.replaceChildren(title, ...toName.map((label, k) => {
        const item = make("span"), swatch = make("span", null, { class: "swatch", "aria-hidden": "true" });
        swatch.style.background = labelColour(k, count);
        item.append(swatch, named(label, 24));
        return item;
      }));
      return;
    }
    const bar = make("canvas", null, { "aria-hidden": "true" });
    bar.width = 100; bar.height = 1;
    const context = bar.getContext("2d");
    for (let k = 0; k < 100; k++) { context.fillStyle = ramp(colouring.kind, k / 99); context.fillRect(k, 0, 1, 1); }
    box.replaceChildren(title, make("span", number(colouring.range[0])), bar, make("span", number(colouring.range[1])));
  }

  picture(canvas, (width) => Math.min(460, width * 0.75), (context, width, height) => {
    const size = 0.45 * Math.min(width, height), [middle, centre] = [width / 2, height / 2];
    const [cy, sy, cp, sp] = [Math.cos(view.yaw), Math.sin(view.yaw), Math.cos(view.pitch), Math.sin(view.pitch)];
    const dims = coordinates.length, order = [], place = [];
    for (let k = 0; k < count; k++) {
      if (colours[k] === null || colours[k] === undefined) continue;
      const x = coordinates[0][k];
      let px = x, py, depth = 0;
      if (dims === 1) { px = x; py = 1 - (2 * k) / Math.max(1, count - 1); }
      else if (dims === 2) py = coordinates[1][k];
      else {
        const y = coordinates[1][k], z = coordinates[2][k];
        const turned = x * sy + y * cy;
        px = x * cy - y * sy;
        py = z * cp - turned * sp;
        depth = z * sp + turned * cp;
      }
      place[k] = [middle + px * size * (dims === 3 ? 0.8 : 1), centre - py * size * (dims === 3 ? 0.8 : 1)];
      order.push([depth, k]);
    }
    if (dims === 3) order.sort((a, b) => b[0] - a[0]);
    const [from, to] = state.stretch || [0, 1];
    for (const [depth, k] of order) {
      const share = steps.data[k] / facts.steps, inside = share >= from && share <= to;
      context.globalAlpha = inside ? (dims === 3 ? 0.55 + 0.3 * (1 - depth) / 2 : 0.75) : 0.06;
      context.fillStyle = colours[k];
      context.beginPath();
      context.arc(place[k][0], place[k][1], 2.2, 0, 7);
      context.fill();
    }
    context.globalAlpha = 1;
    context.fillStyle = css("--soft");
    context.textAlign = "left";
    context.fillText(`${dims} of ${facts.dims[names[view.space]][1] - facts.dims[names[view.space]][0]} dimensions` + (dims === 1 ? ", over time (downwards)" : ""), 6, height - 10);
  });

  const turn = (yaw, pitch) => { view.yaw += yaw; view.pitch = Math.max(-1.5, Math.min(1.5, view.pitch + pitch)); redraw(canvas); };
  const steps4 = { left: [-0.2, 0], right: [0.2, 0], up: [0, 0.2], down: [0, -0.2] };
  for (const button of document.querySelectorAll("[data-turn]"))
    button.addEventListener("click", () => turn(...steps4[button.dataset.turn]));
  canvas.addEventListener("keydown", (event) => {
    const way = event.key.replace("Arrow", "").toLowerCase();
    if (event.key.startsWith("Arrow")) { turn(...steps4[way]); event.preventDefault(); }
  });
  let held = null;
  canvas.addEventListener("pointerdown", (event) => { held = [event.clientX, event.clientY]; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => {
    if (!held) return;
    turn((event.clientX - held[0]) / 120, (event.clientY - held[1]) / 120);
    held = [event.clientX, event.clientY];
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => (held = null));
  byId("which-space").addEventListener("change", (event) => { view.space = Number(event.target.value); choose(); redraw(canvas); });
  byId("colour").addEventListener("change", async (event) => { view.colour = event.target.value; await colour(); redraw(canvas); });
  whenChanged(async (what) => {
    if (what.includes("channel") && view.colour === "channel") await colour();
    redraw(canvas);
  });
  dark.addEventListener("change", async () => { await colour(); redraw(canvas); });
  choose();
  await colour();
  redraw(canvas);
  canvas.dataset.points = count;
}
