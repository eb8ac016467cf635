// The table of channels, sortable and searchable, and the table of calls with its download.
const PAGE = 100;
const spaceCount = facts.spaces.length;

// Channels that carry the same stand together: those of the first space first, the strongest on top.
let tops = [], arranged = [];
function arrange() {
  tops = facts.spaces.map((_, s) => Math.max(0, ...facts.channels.map((_, c) => score("score", s, c)).filter(Number.isFinite)));
  const some = facts.spaces.some((space) => space.called > 0);
  const main = facts.channels.map((_, c) => {
    const share = facts.spaces.map((_, s) => score("score", s, c) / (tops[s] || 1) || 0);
    const first = some ? share.findIndex((_, s) => isCalled(s, c)) : share.indexOf(Math.max(...share));
    return first < 0 ? [spaceCount, Math.max(...share)] : [first, share[first]];
  });
  arranged = facts.channels.map((_, c) => c);
  arranged.sort((a, b) => main[a][0] - main[b][0] || main[b][1] - main[a][1] || a - b);
}

const search = { text: "", called: false, column: null, down: true, most: PAGE };
let matching = [];

function matches() {
  const wanted = search.text.trim().toLowerCase();
  const texts = (c) => [facts.channels[c], ...facts.units.map((unit) => unit.values[c])];
  let found = arranged.filter((c) => !wanted || texts(c).some((text) => text.toLowerCase().includes(wanted)));
  if (search.called) found = found.filter((c) => facts.spaces.some((_, s) => isCalled(s, c)));
  if (search.column !== null) {
    const key = search.column === "name" ? (c) => facts.channels[c] : (c) => score("score", search.column, c);
    const sign = search.down ? -1 : 1;
    found = found.slice().sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      if (typeof x === "string") return sign * x.localeCompare(y, "en", { numeric: true });
      return (Number.isFinite(x) ? 0 : 1) - (Number.isFinite(y) ? 0 : 1) || sign * (x - y) || a - b;
    });
  }
  return found;
}

function tableHead() {
  const line = make("tr");
  const head = (name, key) => {
    const cell = make("th", null, { scope: "col" }), button = make("button", null, { type: "button" });
    button.append(named(name, 24));
    button.addEventListener("click", () => {
      if (search.column === key) search.down = !search.down;
      else Object.assign(search, { column: key, down: key !== "name" });
      fillTable();
    });
    cell.append(button);
    cell.dataset.key = key;
    line.append(cell);
  };
  head("channel", "name");
  facts.spaces.forEach((space, s) => head(space.name, s));
  document.querySelector("#channel-table thead").replaceChildren(line);
}

function scoreCell(s, c) {
  const cell = make("td", null, { class: "cell" }), value = score("score", s, c);
  const bar = make("span", null, { class: "bar", "aria-hidden": "true" }), fill = make("span");
  fill.style.width = (100 * Math.max(0, Math.min(1, value / (tops[s] || 1))) || 0).toFixed(1) + "%";
  fill.style.background = isCalled(s, c) || !facts.spaces[s].tested ? spaceColour(s) : css("--soft");
  bar.append(fill);
  cell.append(bar, " " + (facts.method === "unique_variance" ? percent(value) : number(value)));
  if (isCalled(s, c)) cell.append(make("strong", " ●", { "aria-hidden": "true" }), make("span", " called", { class: "heard" }));
  return cell;
}

function fillTable() {
  matching = matches();
  const body = document.querySelector("#channel-table tbody");
  body.replaceChildren(...matching.slice(0, search.most).map((c) => {
    const line = make("tr", null, { "aria-selected": String(c === state.channel) });
    line.dataset.channel = c;
    const name = make("td"), button = make("button", null, { type: "button" });
    button.append(named(facts.channels[c]));
    button.addEventListener("click", () => change({ channel: c }));
    name.append(button);
    line.append(name, ...facts.spaces.map((_, s) => scoreCell(s, c)));
    return line;
  }));
  for (const cell of document.querySelectorAll("#channel-table th[data-key]")) {
    const mine = String(search.column) === cell.dataset.key;
    cell.setAttribute("aria-sort", mine ? (search.down ? "descending" : "ascending") : "none");
  }
  const all = facts.channels.length;
  byId("table-count").textContent = `${matching.length} of ${all} channel${all === 1 ? "" : "s"}`;
  byId("more-channels").hidden = matching.length <= search.most;
}

function markRow() {
  for (const line of document.querySelectorAll("#channel-table tbody tr"))
    line.setAttribute("aria-selected", String(Number(line.dataset.channel) === state.channel));
}

// All calls, a row for each channel and space that was tested or scored.
let callsMost = PAGE;
function callRows(only) {
  const rows = [];
  facts.spaces.forEach((_, s) => {
    for (const c of arranged) if (!only || isCalled(s, c)) rows.push([s, c]);
  });
  return rows.sort((a, b) => a[0] - b[0] || score("score", b[0], b[1]) - score("score", a[0], a[1]) || a[1] - b[1]);
}
function fillCalls() {
  const rows = callRows(byId("calls-called").checked);
  const body = document.querySelector("#calls-table tbody");
  body.replaceChildren(...rows.slice(0, callsMost).map(([s, c]) => {
    const line = make("tr"), cells = [make("td"), make("td")];
    cells[0].append(named(facts.channels[c]));
    cells[1].append(named(facts.spaces[s].name));
    const low = score("ci_low", s, c), high = score("ci_high", s, c);
    line.append(...cells, make("td", aligned(score("score", s, c))),
      make("td", Number.isFinite(low) ? `${aligned(low)} to ${aligned(high)}` : "–"),
      make("td", chance(score("q", s, c))), make("td", answerOf(s, c)));
    return line;
  }));
  byId("calls-count").textContent = `${rows.length} rows`;
  byId("more-calls").hidden = rows.length <= callsMost;
}

function csv() {
  const quote = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const plain = (value) => (Number.isFinite(value) ? String(Number(value.toPrecision(7))) : "");
  const head = ["channel", "space", ...facts.columns, "called", ...facts.units.map((unit) => unit.name)];
  const lines = callRows(false).map(([s, c]) => [
    facts.channels[c], facts.spaces[s].name, ...facts.columns.map((column) => plain(score(column, s, c))),
    facts.spaces[s].tested ? String(isCalled(s, c)) : "", ...facts.units.map((unit) => unit.values[c]),
  ]);
  return [head, ...lines].map((line) => line.map((cell) => quote(String(cell))).join(",")).join("\r\n") + "\r\n";
}

function startTables() {
  tableHead();
  fillTable();
  byId("search").addEventListener("input", (event) => { search.text = event.target.value; search.most = PAGE; fillTable(); });
  byId("only-called").addEventListener("change", (event) => { search.called = event.target.checked; search.most = PAGE; fillTable(); });
  byId("more-channels").addEventListener("click", () => { search.most += PAGE; fillTable(); });
  const head = make("tr");
  for (const name of ["Channel", "Space", "Score", "95% interval", "q", "Called"]) head.append(make("th", name, { scope: "col" }));
  document.querySelector("#calls-table thead").replaceChildren(head);
  fillCalls();
  byId("calls-called").addEventListener("change", () => { callsMost = PAGE; fillCalls(); });
  byId("more-calls").addEventListener("click", () => { callsMost += PAGE; fillCalls(); });
  byId("download").addEventListener("click", () => {
    const link = make("a", null, { href: URL.createObjectURL(new Blob([csv()], { type: "text/csv" })), download: "calls.csv" });
    document.body.append(link);
    link.click();
    link.remove();
  });
  whenChanged((what) => what.includes("channel") && markRow());
}
