// A run in progress: each event is its current state, with the steps that this page does not have yet.
import { change, changeable } from "./key.js";
import { behind, chart, number, provisional, say, scenario, show, verdict } from "./view.js";

const NAMES = ["number", "sent", "acked", "failed", "unknown", "delivered", "p50", "p99"];
const source = new EventSource(`${document.body.dataset.run}/events`);
let rows = [], width = 1, began = "";

const faultText = (fault) => {
  const who = fault.brokers.length ? ` (broker ${fault.brokers.join(", ")})` : "";
  const when = fault.to_s === null ? `since ${fault.from_s.toFixed(1)} s` : `${fault.from_s.toFixed(1)} s to ${fault.to_s.toFixed(1)} s`;
  return `${fault.state}: ${fault.fault} ${fault.target}${who}, ${when}. ${fault.proof}`;
};
const active = (fault) => fault.state === "active" || fault.state === "being injected";

// The last second that is complete, or nearly so: the current one has too few messages to compare.
const latest = () => rows.findLast((row) => row && row.p50 !== null) ?? { p50: null, p99: null };

// A step in the form that the charts need.
const charted = (row) => {
  const s = row.number * width, rate = (count) => count / width;
  return {
    s, m: s + width / 2, t: s + width, sent_rate: rate(row.sent), acked_rate: rate(row.acked), bad_rate: rate(row.failed + row.unknown),
    delivered_rate: rate(row.delivered), ack_p50_ms: row.p50, ack_p99_ms: row.p99, ack_max_ms: null,
  };
};

source.addEventListener("message", (event) => {
  const snapshot = JSON.parse(event.data);
  if (snapshot.whole || snapshot.steps.width_s !== width || snapshot.began_ns !== began) rows = [];
  width = snapshot.steps.width_s;
  began = snapshot.began_ns;
  for (const step of snapshot.steps.rows) rows[step[0]] = Object.fromEntries(NAMES.map((name, at) => [name, step[at]]));
  scenario(snapshot.scenario);
  const last = latest();
  // A latency is current if it was measured in the last three seconds.
  const fresh = snapshot.clock_s !== null && (last.number + 2) * width > snapshot.clock_s - 2;
  show({
    clock: snapshot.clock_s, phase: snapshot.recorder.dead ? "recorder dead" : snapshot.phase, counts: snapshot.counts, rates: snapshot.rates,
    latency: fresh ? last : { p50: null, p99: null }, faults: snapshot.faults.map((fault) => ({ text: faultText(fault), active: active(fault) })),
    places: snapshot.places.map((place) => ({ ...place, isr: place.isr.join(", ") })), placesLeftOut: snapshot.places_left_out, nowhere: "Unknown so far.",
    lags: snapshot.lags, groups: snapshot.groups, total: snapshot.total, ledger: snapshot.ledger,
  });
  chart("newer", {
    width, end: Math.max(30, rows.length * width), steps: rows.filter(Boolean).map(charted),
    faults: snapshot.faults.filter((fault) => fault.state !== "without effect").map((fault) => ({ begin: fault.from_s, end: fault.to_s ?? snapshot.clock_s ?? fault.from_s, kind: "fault", text: fault.fault })),
  });
  behind(snapshot.behind_s === null || snapshot.state !== "recording" ? "" : snapshot.behind_s > 3 ? `the newest row is ${number(snapshot.behind_s)} s old` : "");
  say(snapshot.recorder.message);
  const final = snapshot.verdict ?? (snapshot.state === "sealed" ? snapshot.ledger?.final : null);
  verdict(final);
  if (final) provisional(snapshot.verdict ? "final: judged" : "final: by the streaming ledger");
  document.body.dataset.version = event.lastEventId;
});
source.addEventListener("end", (event) => {
  source.close();
  if (event.data !== "over") say(event.data);
  document.body.dataset.ended = "yes";
});
source.addEventListener("error", () => {
  if (source.readyState !== EventSource.CLOSED) say("The dashboard is not responding: it has stopped or is restarting. What was recorded is in the run folder.");
});

// A run that this dashboard started can be stopped, as with Ctrl-C.
const stop = document.getElementById("stop");
changeable();
stop?.addEventListener("click", async () => {
  stop.disabled = true;
  try {
    await change("/started/stop", { run: decodeURIComponent(document.body.dataset.run.split("/").at(-1)) });
    stop.textContent = "Stopping the run";
  } catch (error) { say(error.message); }
});
