// What all parts share: the data, the state, small helpers. Text from data is only ever set as text.
const facts = JSON.parse(document.getElementById("facts").textContent);
const byId = (id) => document.getElementById(id);

const TYPES = { uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, float32: Float32Array, float64: Float64Array };
const opened = new Map();

// The array of a name: { data, shape }; opened when it is asked for first.
function array(name) {
  if (!opened.has(name)) opened.set(name, open(name));
  return opened.get(name);
}
async function open(name) {
  const element = byId("array-" + name);
  if (!element) return null;
  const packed = JSON.parse(element.textContent);
  element.remove(); // the text is not needed any more
  const text = atob(packed.data);
  const bytes = new Uint8Array(text.length);
  for (let k = 0; k < text.length; k++) bytes[k] = text.charCodeAt(k);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer();
  return { data: new TYPES[packed.type](buffer), shape: packed.shape };
}

// Row k of an array of codes as numbers between its least and its greatest value.
async function row(name, k) {
  const [codes, ranges] = await Promise.all([array(name), array(name + "_range")]);
  const size = codes.shape.slice(1).reduce((a, b) => a * b, 1);
  const most = codes.data.BYTES_PER_ELEMENT === 1 ? 254 : 65534;
  const low = ranges.data[2 * k], high = ranges.data[2 * k + 1];
  const out = new Float32Array(size);
  for (let i = 0; i < size; i++) {
    const code = codes.data[k * size + i];
    out[i] = code > most ? NaN : low + (code / most) * (high - low);
  }
  return out;
}

const state = { channel: 0, stretch: null };
const listeners = [];
const whenChanged = (listener) => listeners.push(listener);
function change(values) {
  Object.assign(state, values);
  for (const listener of listeners) listener(Object.keys(values));
}

// An element with text (never markup) and attributes.
function make(tag, text, attributes) {
  const element = document.createElement(tag);
  if (text !== undefined && text !== null) element.textContent = text;
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  return element;
}
const shown = (name, most = 60) => {
  const text = String(name);
  if (!text.trim()) return "(empty name)";
  const letters = Array.from(text.slice(0, 4 * most));
  return letters.length > most || text.length > 4 * most ? letters.slice(0, most - 1).join("") + "…" : text;
};
const named = (name, most) => make("bdi", shown(name, most));
// In a picture a name is kept apart from what stands around it, whatever its direction.
const drawn = (name, most) => "\u2068" + shown(name, most) + "\u2069";

function number(value, digits = 3) {
  if (!Number.isFinite(value)) return "–";
  if (value !== 0 && Math.abs(value) < 1e-4) return value.toExponential(1);
  return Number(value.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 6 });
}
function percent(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  return (100 * value).toFixed(size >= 0.0995 ? 0 : size >= 0.00995 ? 1 : 2) + "%";
}

// Numbers of a table: all with three digits, so that they can be compared down a column.
const aligned = (value) => (Number.isFinite(value) && Math.abs(value) >= 1e-4 && Math.abs(value) < 100 ? value.toPrecision(3) : number(value));

// A small probability for people; the table that can be downloaded has all its digits.
const chance = (value) => (value < 1e-4 ? "< 0.0001" : number(value, 2));

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const spaceColour = (k) => css("--s" + (k % 7));
// A variable has the colour of the first space that asks about it.
const variableColour = (name) => {
  const owner = facts.spaces.findIndex((space) => space.variables.includes(name));
  return owner < 0 ? css("--soft") : spaceColour(owner);
};
const dark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => dark.matches && !matchMedia("print").matches;
const ANCHORS = {
  number: ["#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#fde725"],
  onDark: ["#7a5cc0", "#5a76c4", "#2a8fa5", "#22a884", "#7ad151", "#fde725"], // the lowest must be seen, too
  angle: ["#c9bfd6", "#6e7fb8", "#3d2a63", "#2f1436", "#8a2f52", "#c58a74", "#c9bfd6"],
};
function ramp(kind, share) {
  const stops = ANCHORS[kind === "number" && isDark() ? "onDark" : kind] || ANCHORS.number;
  const place = Math.max(0, Math.min(0.9999, share)) * (stops.length - 1);
  const k = Math.floor(place), part = place - k;
  const [a, b] = [stops[k], stops[k + 1]].map((hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)));
  return `rgb(${a.map((v, i) => Math.round(v + part * (b[i] - v))).join(",")})`;
}
const LABELS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#b8a900", "#6f5b9a"];
// With more labels than there are colours to tell apart, those after the first few share grey.
const FEW = LABELS.length - 1;
const labelColour = (k, count) => (count > LABELS.length && k >= FEW ? "#9aa0a8" : LABELS[k % LABELS.length]);

// The table of scores: column, space, channel -> number.
let table = null, called = null;
const columns = Object.fromEntries(facts.columns.map((name, k) => [name, k]));
const score = (column, space, channel) =>
  table.data[(columns[column] * table.shape[1] + space) * table.shape[2] + channel];
// Whether a channel carries a space, in words.
const answerOf = (s, c) => {
  const { refused, undecided, tested } = facts.spaces[s];
  return isCalled(s, c) ? "yes" : refused ? "no map" : undecided ? "not decided" : tested ? "no" : "not tested";
};
const isCalled = (space, channel) => called.data[space * called.shape[1] + channel] === 1;
