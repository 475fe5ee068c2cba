// A run in progress: each event is a picture of it, with the steps that are new to this page.
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

// The last second that is whole, or nearly: the one that is going on has too few in it to be compared.
const latest = () => rows.findLast((row) => row && row.p50 !== null) ?? { p50: null, p99: null };

// A step as the charts have it.
const charted = (row) => {
  const s = row.number * width, rate = (count) => count / width;
  return {
    s, m: s + width / 2, t: s + width, sent_rate: rate(row.sent), acked_rate: rate(row.acked), bad_rate: rate(row.failed + row.unknown),
    delivered_rate: rate(row.delivered), ack_p50_ms: row.p50, ack_p99_ms: row.p99, ack_max_ms: null,
  };
};

source.addEventListener("message", (event) => {
  const picture = JSON.parse(event.data);
  if (picture.whole || picture.steps.width_s !== width || picture.began_ns !== began) rows = [];
  width = picture.steps.width_s;
  began = picture.began_ns;
  for (const step of picture.steps.rows) rows[step[0]] = Object.fromEntries(NAMES.map((name, at) => [name, step[at]]));
  scenario(picture.scenario);
  const last = latest();
  // Who reads the lines of the last three seconds reads of now.
  const fresh = picture.clock_s !== null && (last.number + 2) * width > picture.clock_s - 2;
  show({
    clock: picture.clock_s, phase: picture.recorder.dead ? "recorder dead" : picture.phase, counts: picture.counts, rates: picture.rates,
    latency: fresh ? last : { p50: null, p99: null }, faults: picture.faults.map((fault) => ({ text: faultText(fault), active: active(fault) })),
    places: picture.places.map((place) => ({ ...place, isr: place.isr.join(", ") })), placesLeftOut: picture.places_left_out, nowhere: "Not known yet.",
    lags: picture.lags, groups: picture.groups, total: picture.total, ledger: picture.ledger,
  });
  chart("newer", {
    width, end: Math.max(30, rows.length * width), steps: rows.filter(Boolean).map(charted),
    faults: picture.faults.filter((fault) => fault.state !== "without effect").map((fault) => ({ begin: fault.from_s, end: fault.to_s ?? picture.clock_s ?? fault.from_s, kind: "fault", text: fault.fault })),
  });
  behind(picture.behind_s === null || picture.state !== "recording" ? "" : picture.behind_s > 3 ? `the newest row is ${number(picture.behind_s)} s old` : "");
  say(picture.recorder.message);
  const final = picture.verdict ?? (picture.state === "sealed" ? picture.ledger?.final : null);
  verdict(final);
  if (final) provisional(picture.verdict ? "final: judged" : "final: by the streaming ledger");
  document.body.dataset.version = event.lastEventId;
});
source.addEventListener("end", (event) => {
  source.close();
  if (event.data !== "over") say(event.data);
  document.body.dataset.ended = "yes";
});
source.addEventListener("error", () => {
  if (source.readyState !== EventSource.CLOSED) say("The dashboard does not answer: it has ended, or is about to come back. What was recorded is in the run folder.");
});

// Where this run was started by this dashboard: it can be stopped, as by Ctrl-C.
const stop = document.getElementById("stop");
changeable();
stop?.addEventListener("click", async () => {
  stop.disabled = true;
  try {
    await change("/started/stop", { run: decodeURIComponent(document.body.dataset.run.split("/").at(-1)) });
    stop.textContent = "It is being stopped";
  } catch (error) { say(error.message); }
});
