// Shows one moment of a run, live or replayed.

const by = (id) => document.getElementById(id);
export const number = (value) => value === null || value === undefined ? "–" : value >= 100 || Number.isInteger(value) ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(3));
export const seconds = (value) => value === null || value === undefined ? "" : `${value.toFixed(1)} s`;
export const say = (text) => { by("message").textContent = text; by("message").hidden = !text; };

const figures = new Map();
function figure(name, value, beside) {
  if (!figures.has(name)) {
    const item = document.createElement("li"), big = document.createElement("b"), small = document.createElement("span"), more = document.createElement("span");
    small.textContent = name;
    item.append(big, small, more);
    by("counts").append(item);
    figures.set(name, [big, more]);
  }
  const [big, more] = figures.get(name);
  big.textContent = value;
  more.textContent = beside;
}

function rowsOf(place, lines) {
  place.replaceChildren(...lines.map((cells) => {
    const row = document.createElement("tr");
    cells.forEach((cell, at) => {
      const made = document.createElement(at ? "td" : "th");
      if (!at) made.scope = "row";
      if (at === 3) made.className = "text";
      made.textContent = cell;
      row.append(made);
    });
    return row;
  }));
}

// view: { clock, phase, counts, rates, latency: {p50, p99}, faults, places, placesLeftOut, lags, groups, total }
export function show(view) {
  by("phase").textContent = view.phase;
  by("clock").textContent = seconds(view.clock);
  const { counts, rates, latency } = view;
  const kept = counts.kept ?? 0, refused = counts.refused ?? 0;
  const open = Math.max(0, counts.attempted - counts.acked - counts.failed - counts.unknown - kept - refused);
  figure("sent", number(counts.attempted), `${number(rates.attempted)} per second`);
  figure("acknowledged", number(counts.acked), `${number(rates.acked)} per second`);
  figure("failed", number(counts.failed), "");
  figure("outcome unknown", number(counts.unknown), "");
  if (kept || refused) figure("kept by stores", number(kept), refused ? `${number(refused)} refused` : "");
  figure("no outcome yet", number(open), "");
  figure("delivered", number(counts.delivered), `${number(rates.delivered)} per second`);
  for (const name of view.ledger ? ["missing", "late", "duplicated", "reordered"] : []) figure(name, number(view.ledger[name]), "");
  figure("ack latency p50", latency.p50 === null ? "–" : `${number(latency.p50)} ms`, "");
  figure("ack latency p99", latency.p99 === null ? "–" : `${number(latency.p99)} ms`, "");
  const progress = by("progress");
  progress.hidden = !view.total;
  if (view.total) { progress.max = view.total; progress.value = counts.attempted; }
  by("faults").replaceChildren(...(view.faults.length ? view.faults : [{ text: "none so far" }]).map((fault) => {
    const item = document.createElement("li");
    if (fault.active) item.className = "active";
    item.textContent = fault.text;
    return item;
  }));
  rowsOf(by("places"), view.places.map((place) => [place.place, place.leader ?? "none", place.epoch >= 0 ? place.epoch : "", place.isr]));
  by("places-more").textContent = view.placesLeftOut ? `${view.placesLeftOut} more partitions are not shown.` : view.places.length ? "" : view.nowhere;
  const groups = [...new Set([...Object.keys(view.lags), ...Object.keys(view.groups)])].sort();
  rowsOf(by("lags"), groups.map((group) => [group, number(view.lags[group]), number(view.groups[group])]));
}

// Sends an event to the charts (charts.js), once they are drawn.
export async function chart(name, detail) {
  while (!document.body.dataset.ready) await new Promise((done) => setTimeout(done, 50));
  document.querySelector(".chartarea")?.dispatchEvent(new CustomEvent(name, { detail }));
}

export function verdict(found) {
  const place = by("verdict");
  place.hidden = !found;
  if (!found) return;
  place.className = `verdict ${found.kind}`;
  place.textContent = found.message;
}
export const provisional = (text) => { by("provisional").textContent = text; };
export const scenario = (text) => { by("scenario").textContent = text; document.title = `${text} - kaput`; };
export const behind = (text) => { by("behind").textContent = text; };
