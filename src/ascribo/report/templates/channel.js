// The chosen channel: its scores with their intervals, its tuning, its activity over time and the map of a stretch.
async function startChannel() {
  byId("previous").addEventListener("click", () => step(-1));
  byId("next").addEventListener("click", () => step(1));
  picture(byId("intervals"), () => 14 + 24 * facts.spaces.length, (context, width) => drawIntervals(context, width));
  whenChanged((what) => what.includes("channel") && fillChannel());
  await fillChannel();
}

function step(by) {
  const order = matching.length ? matching : arranged;
  const at = order.indexOf(state.channel);
  change({ channel: order[Math.max(0, Math.min(order.length - 1, at + by))] });
}

async function fillChannel() {
  const c = state.channel;
  byId("channel-name").textContent = facts.channels[c].trim() ? facts.channels[c] : "(empty name)";
  byId("channel-units").textContent = facts.units.map((unit) => `${shown(unit.name, 24)}: ${shown(unit.values[c], 40)}`).join(" · ");
  document.querySelector("#channel-scores tbody").replaceChildren(...facts.spaces.map((space, s) => {
    const line = make("tr"), head = make("th", null, { scope: "row" });
    head.append(named(space.name));
    const low = score("ci_low", s, c), high = score("ci_high", s, c);
    line.append(head, make("td", aligned(score("score", s, c))), make("td", Number.isFinite(low) ? `${aligned(low)} to ${aligned(high)}` : "–"),
      make("td", chance(score("q", s, c))), make("td", answerOf(s, c)));
    return line;
  }));
  redraw(byId("intervals"));
  await fillTuning(c);
}

function drawIntervals(context, width) {
  const c = state.channel, left = Math.min(120, width * 0.3), right = 50;
  const ends = facts.spaces.map((_, s) => [score("ci_low", s, c), score("score", s, c), score("ci_high", s, c)]);
  const known = ends.flat().filter(Number.isFinite);
  if (!known.length) return;
  const low = Math.min(0, ...known), high = Math.max(0.01, ...known);
  const px = (v) => left + ((v - low) / (high - low)) * (width - left - right);
  context.strokeStyle = css("--soft");
  context.beginPath();
  context.moveTo(px(0), 2);
  context.lineTo(px(0), 10 + 24 * ends.length);
  context.stroke();
  ends.forEach(([a, value, b], s) => {
    const y = 16 + 24 * s;
    context.fillStyle = css("--ink");
    context.textAlign = "right";
    context.fillText(fitted(context, drawn(facts.spaces[s].name, 24), left - 8), left - 6, y);
    if (!Number.isFinite(value)) return;
    context.strokeStyle = context.fillStyle = isCalled(s, c) ? spaceColour(s) : css("--soft");
    context.lineWidth = 3;
    if (Number.isFinite(a)) { context.beginPath(); context.moveTo(px(a), y); context.lineTo(px(b), y); context.stroke(); }
    context.beginPath();
    context.arc(px(value), y, 5, 0, 7);
    context.fill();
    context.lineWidth = 1;
    context.textAlign = "left";
    context.fillStyle = css("--ink");
    context.fillText(facts.method === "unique_variance" ? percent(value) : number(value), width - right + 6, y);
  });
}

let filling = 0;
async function fillTuning(c) {
  const mine = ++filling, box = byId("tuning");
  const curves = byId("array-tuning") || opened.has("tuning") ? await row("tuning", c) : null;
  const maps = await Promise.all(facts.maps.map((_, k) => row("rate_map_" + k, c)));
  if (mine !== filling) return; // another channel was chosen meanwhile
  const figures = [];
  let at = 0;
  facts.variables.forEach((variable) => {
    const bins = variable.bins, parts = [0, 1, 2].map((k) => curves.subarray(at + k * bins, at + (k + 1) * bins));
    at += 3 * bins;
    figures.push(tuningFigure(variable, parts));
  });
  facts.maps.forEach((map, k) => figures.unshift(rateFigure(map, maps[k])));
  box.replaceChildren(...figures.map(([figure]) => figure));
  for (const [, canvas] of figures) redraw(canvas);
}

// A figure whose caption says which variables, with words around their names.
function captioned(names, after = "") {
  const figure = make("figure"), canvas = make("canvas"), caption = make("figcaption", "by ");
  const name = names.map((one) => shown(one, 24)).join(" and ");
  names.forEach((one, k) => caption.append(k ? " (across) and " : "", named(one, 24)));
  caption.append(after);
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", "Mean of the channel by " + shown(name, 60));
  figure.append(canvas, caption);
  return [figure, canvas];
}
function tuningFigure(variable, [all, early, late]) {
  const [figure, canvas] = captioned([variable.name]);
  const [low, high] = variable.range, labels = variable.kind === "label";
  const x = Array.from(all, (_, k) => (labels ? k : low + ((k + 0.5) / variable.bins) * (high - low)));
  const line = (y, width, alpha) => ({ x, y, width, alpha, colour: variableColour(variable.name), dots: labels });
  picture(canvas, () => 120, (context, width, height) =>
    lineChart(context, width, height, [line(early, 1, 0.35), line(late, 1, 0.35), line(all, 2, 1)],
      { names: labels && variable.labels.length <= 8 ? variable.labels : null, domain: labels ? [-0.5, variable.labels.length - 0.5] : [low, high] }));
  return [figure, canvas];
}
function rateFigure(map, values) {
  const [one, two] = map.variables.map((k) => facts.variables[k]);
  const known = values.filter(Number.isFinite), low = Math.min(...known), high = Math.max(...known);
  const scale = known.length ? ` (up); dark: ${number(low, 2)}, bright: ${number(high, 2)}` : " (up)";
  const [figure, canvas] = captioned([one.name, two.name], scale);
  picture(canvas, (width) => Math.min(width, 180), (context, width, height) => {
    const side = Math.min(width, height) / map.side;
    for (let i = 0; i < map.side; i++) for (let j = 0; j < map.side; j++) {
      const value = values[i * map.side + j];
      if (!Number.isFinite(value)) continue;
      context.fillStyle = ramp("number", (value - low) / (high - low || 1));
      context.fillRect(i * side, (map.side - 1 - j) * side, side + 0.5, side + 0.5);
    }
  });
  return [figure, canvas];
}

// Activity over time with the variables below; a stretch is chosen by dragging or with the sliders.
const LANE = 34, TOP = 110;
async function startTime() {
  const canvas = byId("activity"), bins = facts.bins;
  const times = (await array("bin_time")).data;
  const behaviours = await Promise.all(facts.variables.map((_, k) => row("behaviour", k)));
  let own = await row("envelope", state.channel);
  const left = 92;
  const px = (width, share) => left + share * (width - left - 6);
  picture(canvas, () => TOP + LANE * facts.variables.length + 24, (context, width, height) => {
    const lane = (values, top, tall, colour) => {
      const known = values.filter(Number.isFinite);
      let low = Infinity, high = -Infinity;
      for (const v of known) { if (v < low) low = v; if (v > high) high = v; }
      const py = (v) => top + tall - ((v - low) / (high - low || 1)) * tall;
      context.fillStyle = colour;
      for (let b = 0; b < bins; b++) {
        const a = values[b], z = values[bins + b];
        if (!Number.isFinite(a)) continue;
        context.fillRect(px(width, b / bins), py(z), Math.max(0.8, (width - left) / bins), Math.max(1, py(a) - py(z)));
      }
    };
    lane(own, 6, TOP - 16, css("--ink"));
    context.textAlign = "right";
    context.fillStyle = css("--ink");
    context.fillText(fitted(context, drawn(facts.channels[state.channel], 20), left - 8), left - 6, TOP / 2);
    behaviours.forEach((values, k) => {
      const top = TOP + k * LANE;
      lane(values, top + 3, LANE - 8, variableColour(facts.variables[k].name));
      context.fillStyle = css("--ink");
      context.fillText(fitted(context, drawn(facts.variables[k].name, 20), left - 8), left - 6, top + LANE / 2);
    });
    context.fillStyle = css("--soft");
    context.fillText("time", left - 30, height - 8);
    context.textAlign = "center";
    const marks = Math.max(2, Math.floor(width / 140));
    for (let k = 0; k <= marks; k++) {
      const b = Math.min(bins - 1, Math.round((k / marks) * bins));
      context.fillText(number(times[b], 4), Math.min(width - 20, px(width, k / marks)), height - 8);
    }
    if (state.stretch) {
      const [from, to] = state.stretch;
      context.fillStyle = css("--link");
      context.globalAlpha = 0.18;
      context.fillRect(px(width, from), 0, px(width, to) - px(width, from), height - 20);
      context.globalAlpha = 1;
    }
  });
  let began = null;
  const shareAt = (event) => {
    const box = canvas.getBoundingClientRect();
    return Math.max(0, Math.min(1, (event.clientX - box.left - left) / (box.width - left - 6)));
  };
  const choose = (a, b) => {
    const [from, to] = a < b ? [a, b] : [b, a];
    change({ stretch: to - from < 0.002 ? null : [from, to] });
  };
  canvas.addEventListener("pointerdown", (event) => { began = shareAt(event); canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => began !== null && choose(began, shareAt(event)));
  canvas.addEventListener("pointerup", (event) => { if (began !== null) choose(began, shareAt(event)); began = null; });
  const slide = () => choose(byId("from").value / 1000, byId("to").value / 1000);
  byId("from").addEventListener("input", slide);
  byId("to").addEventListener("input", slide);
  byId("whole").addEventListener("click", () => change({ stretch: null }));
  whenChanged(async (what) => {
    if (what.includes("channel")) own = await row("envelope", state.channel);
    if (what.includes("stretch")) showStretch(times);
    redraw(canvas);
  });
  await startStretchMap();
  showStretch(times);
  redraw(canvas);
}

function showStretch(times) {
  const [from, to] = state.stretch || [0, 1], bins = times.length;
  byId("from").value = Math.round(1000 * from);
  byId("to").value = Math.round(1000 * to);
  const at = (share) => number(times[Math.max(0, Math.min(bins - 1, Math.round(share * bins)))], 4);
  byId("stretch").textContent = state.stretch ? `time ${at(from)} to ${at(to)}` : "whole recording";
}

// Blocks of time that a stretch touches, as numbers from first to last.
function touched([from, to]) {
  const starts = facts.blocks, out = [];
  starts.forEach((start, b) => {
    const stop = b + 1 < starts.length ? starts[b + 1] : facts.steps;
    const middle = (start + stop) / 2 / facts.steps;
    if (middle >= from && middle <= to) out.push(b);
  });
  if (!out.length && starts.length) // shorter than a block: the one it lies in
    out.push(starts.filter((start) => start / facts.steps <= (from + to) / 2).length - 1);
  return out.filter((b) => b >= 0);
}

async function startStretchMap() {
  const canvas = byId("stretch-map"), figure = canvas.parentElement;
  if (!facts.blocks.length) {
    figure.hidden = false;
    canvas.hidden = true;
    byId("stretch-caption").textContent = "These maps have no scores of stretches of time.";
    return;
  }
  const channels = facts.channels.length, count = facts.blocks.length;
  const blocks = await Promise.all(facts.spaces.map((_, s) => row("blocks", s)));
  const mean = (chosen) => facts.spaces.map((_, s) => Float32Array.from({ length: channels }, (_, c) => {
    let sum = 0;
    let known = 0;
    for (const b of chosen) {
      const value = blocks[s][c * count + b];
      if (Number.isFinite(value)) { sum += value; known += 1; }
    }
    return known ? sum / known : NaN;
  }));
  let part = null;
  picture(canvas, () => mapHeight(arranged.length), (context, width, height) => {
    const half = width / 2, box = { width: half - 8, height };
    heatMap(context, { ...box, x: 0, labels: true }, arranged, (s, c) => score("score", s, c), (s) => tops[s], { called: true });
    heatMap(context, { ...box, x: half + 8, labels: false }, arranged, (s, c) => part[s][c], (s) => tops[s], { called: false });
  });
  whenChanged((what) => {
    if (what.includes("stretch")) {
      const chosen = state.stretch ? touched(state.stretch) : [];
      part = chosen.length ? mean(chosen) : null;
      canvas.dataset.blocks = chosen.length;
      figure.hidden = !part;
    }
    if (part) redraw(canvas);
  });
}
