// Pictures on canvases. Each is drawn again when the window, the colours or the state change.
const drawings = new Map();

// Keep a drawing: draw(context, width, height) with height(width) in pixels.
function picture(canvas, height, draw) {
  drawings.set(canvas, () => {
    const width = Math.max(120, Math.floor(canvas.clientWidth || canvas.parentElement.clientWidth));
    const tall = Math.max(1, Math.round(height(width)));
    const dense = Math.min(2, window.devicePixelRatio || 1);
    if (canvas.width !== width * dense || canvas.height !== tall * dense) {
      canvas.width = width * dense;
      canvas.height = tall * dense;
      canvas.style.height = tall + "px";
    }
    const context = canvas.getContext("2d");
    context.setTransform(dense, 0, 0, dense, 0, 0);
    context.clearRect(0, 0, width, tall);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    draw(context, width, tall);
  });
}
const redraw = (canvas) => drawings.has(canvas) && drawings.get(canvas)();
function redrawAll() {
  for (const [canvas, draw] of drawings) {
    if (!canvas.isConnected) drawings.delete(canvas);
    else if (canvas.offsetParent !== null) draw();
  }
}

// As much of a text as there is room for: its beginning and its end, by which names are told apart.
function fitted(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  const letters = Array.from(text);
  const cut = (count) => letters.slice(0, Math.ceil(count / 2)).join("") + "…" + letters.slice(letters.length - Math.floor(count / 2)).join("");
  let count = letters.length;
  while (count > 1 && context.measureText(cut(count)).width > room) count = Math.min(count - 1, Math.floor(count * 0.9));
  return cut(count);
}

// Round values between two others, for the ticks of an axis.
function ticks(low, high, most = 4) {
  if (!(high > low)) return [low];
  const raw = (high - low) / most, size = 10 ** Math.floor(Math.log10(raw));
  const steps = [0.2, 0.5, 1, 2, 5, 10].map((k) => k * size);
  for (let k = steps.findIndex((s) => s >= raw); ; k--) { // a smaller step where fewer than two values would fit
    const out = [];
    for (let n = Math.ceil(low / steps[k] - 1e-9); n * steps[k] <= high + 1e-9 * steps[k]; n++) out.push(n * steps[k]);
    if (out.length > 1 || k === 0) return out;
  }
}

const HEAD = 22;
const rowHeight = (count, tall) => (tall - HEAD) / Math.max(1, count);
const mapHeight = (count) => HEAD + Math.max(60, Math.min(460, count * 15));

// A map: rows are channels in the order given, columns spaces. value(space, channel), top(space): the full colour.
function heatMap(context, box, order, value, top, options) {
  const { x, width, height, labels, head } = box;
  const spaces = facts.spaces.length, tall = rowHeight(order.length, height);
  const left = labels ? Math.min(110, width * 0.35) : 0;
  const wide = (width - left) / Math.max(1, spaces);
  const ink = css("--ink"), soft = css("--soft"), page = css("--page"), grid = css("--grid");
  context.textAlign = "center";
  for (let s = 0; s < spaces; s++) {
    const colour = spaceColour(s);
    context.globalAlpha = 1;
    context.fillStyle = ink;
    if (head !== false) context.fillText(fitted(context, drawn(facts.spaces[s].name, 24), wide - 6), x + left + (s + 0.5) * wide, HEAD / 2);
    for (let r = 0; r < order.length; r++) {
      const channel = order[r], number = value(s, channel);
      const y = HEAD + r * tall;
      const mine = options.called && isCalled(s, channel);
      const share = Math.max(0, Math.min(1, number / (top(s) || 1)));
      context.globalAlpha = 1;
      context.fillStyle = grid;
      if (!Number.isFinite(number)) continue;
      context.fillRect(x + left + s * wide + 1, y, wide - 2, Math.max(1, tall - (tall > 4 ? 1 : 0)));
      context.fillStyle = mine || !options.called ? colour : soft;
      context.globalAlpha = mine || !options.called ? 0.25 + 0.75 * share : 0.35 * share;
      context.fillRect(x + left + s * wide + 1, y, wide - 2, Math.max(1, tall - (tall > 4 ? 1 : 0)));
      if (mine && tall >= 8) {
        context.globalAlpha = 1;
        context.fillStyle = share > 0.35 ? page : ink;
        context.beginPath();
        context.arc(x + left + (s + 0.5) * wide, y + tall / 2, Math.min(3, tall / 4), 0, 7);
        context.fill();
      }
    }
  }
  context.globalAlpha = 1;
  context.textAlign = "center";
  context.fillStyle = soft;
  for (let s = 0; s < spaces; s++)
    if (!order.some((channel) => Number.isFinite(value(s, channel))))
      context.fillText(fitted(context, facts.spaces[s].undecided ? "not decided" : "no scores", wide - 8), x + left + (s + 0.5) * wide, HEAD + 40);
  if (labels && tall >= 11) {
    context.textAlign = "right";
    context.fillStyle = ink;
    order.forEach((channel, r) =>
      context.fillText(fitted(context, drawn(facts.channels[channel], 24), left - 8), x + left - 6, HEAD + (r + 0.5) * tall));
  } else if (labels) {
    context.textAlign = "right";
    context.fillStyle = soft;
    context.fillText(order.length.toLocaleString("en"), x + left - 6, HEAD + 8);
    context.fillText("channels", x + left - 6, HEAD + 24);
  }
  const at = order.indexOf(state.channel);
  if (at >= 0) {
    context.strokeStyle = ink;
    context.lineWidth = 2;
    const y = HEAD + at * tall;
    context.strokeRect(x + left, y - 0.5, width - left, Math.max(3, tall));
  }
}

// Axes and lines: lines are { x, y, colour, width, alpha, dash }.
function lineChart(context, width, height, lines, options = {}) {
  const left = options.left ?? 44, bottom = 30, top = 8, right = 8;
  const all = (key) => lines.flatMap((line) => Array.from(line[key])).filter(Number.isFinite);
  let [low, high] = options.range || [Math.min(...all("y")), Math.max(...all("y"))];
  const [first, last] = options.domain || [Math.min(...all("x")), Math.max(...all("x"))];
  if (!Number.isFinite(low)) return null;
  if (high <= low) { low -= 0.5; high += 0.5; }
  const px = (v) => left + ((v - first) / (last - first || 1)) * (width - left - right);
  const py = (v) => height - bottom - ((v - low) / (high - low)) * (height - bottom - top);
  context.strokeStyle = css("--grid");
  context.fillStyle = css("--soft");
  context.lineWidth = 1;
  context.textAlign = "right";
  for (const value of ticks(low, high, 3)) {
    context.beginPath();
    context.moveTo(left, py(value));
    context.lineTo(width - right, py(value));
    context.stroke();
    context.fillText(number(value), left - 5, py(value));
  }
  context.textAlign = "center";
  if (options.names) {
    const room = (width - left - right) / options.names.length;
    options.names.forEach((name, k) => context.fillText(fitted(context, drawn(name, 16), room - 2), px(k), height - bottom + 10));
  } else {
    for (const value of ticks(first, last, Math.max(3, Math.floor(width / 70))))
      context.fillText(options.tick ? options.tick(value) : number(value), Math.max(left, Math.min(width - 20, px(value))), height - bottom + 10);
  }
  if (options.label) context.fillText(fitted(context, options.label, width - 10), left + (width - left - right) / 2, height - 6);
  for (const line of lines) {
    context.strokeStyle = line.colour;
    context.lineWidth = line.width || 1.5;
    context.globalAlpha = line.alpha ?? 1;
    context.setLineDash(line.dash || []);
    context.beginPath();
    let down = false;
    for (let k = 0; k < line.x.length; k++) {
      if (!Number.isFinite(line.y[k])) { down = false; continue; }
      if (down) context.lineTo(px(line.x[k]), py(line.y[k]));
      else context.moveTo(px(line.x[k]), py(line.y[k]));
      down = true;
      if (line.dots) { context.fillStyle = line.colour; context.fillRect(px(line.x[k]) - 2, py(line.y[k]) - 2, 4, 4); }
    }
    context.stroke();
  }
  context.globalAlpha = 1;
  context.setLineDash([]);
  return { px, py, left, right, top, bottom };
}
