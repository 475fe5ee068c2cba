// Replays a judged run from its timeline, at 1x to 50x speed.
import { chart, number, provisional, say, scenario, show, verdict } from "./view.js";

const by = (id) => document.getElementById(id);
const COUNTS = ["sent", "acked", "failed", "unknown", "delivered"];
const answer = await fetch(`${document.body.dataset.run}/timeline.json`);
const timeline = answer.ok ? await answer.json() : { error: `The dashboard could not read this run (status ${answer.status}).` };
if (timeline.error) say(timeline.error); else play();

function play() {
  const rows = timeline.rows.map(([s, sent, acked, failed, unknown, delivered, p50, p99]) => ({ s, number: s / timeline.width, sent, acked, failed, unknown, delivered, p50, p99 }));
  const sums = [Object.fromEntries(COUNTS.map((name) => [name, 0]))];
  for (const row of rows) sums.push(Object.fromEntries(COUNTS.map((name) => [name, sums.at(-1)[name] + row[name]])));
  const during = (bars, s) => bars.filter((bar) => bar.begin <= s && s < bar.end);
  const past = (s) => { let low = 0, high = rows.length; while (low < high) { const middle = (low + high) >> 1; if (rows[middle].s + timeline.width <= s + 1e-9) low = middle + 1; else high = middle; } return low; };
  // Rates over the previous second, whatever the width of the steps.
  const rates = (upto, s) => {
    const since = past(s - Math.max(1, timeline.width)), span = Math.max((upto - since) * timeline.width, timeline.width);
    return Object.fromEntries(COUNTS.map((name) => [name, (sums[upto][name] - sums[since][name]) / span]));
  };
  const slider = by("at"), button = by("play");
  slider.max = timeline.end;
  let at = 0, playing = false, before = 0;

  const paint = () => {
    const moment = Math.min(at, timeline.end - 1e-6);
    const upto = past(at), counts = sums[upto], now = rates(upto, at);
    const last = rows.slice(0, upto).findLast((row) => row.s >= at - 1 - timeline.width && row.p50 !== null);
    const over = at >= timeline.end, drain = during(timeline.bars.faults, moment).some((bar) => bar.kind === "drain");
    const isrs = Object.fromEntries(during(timeline.bars.isrs, moment).map((bar) => [bar.row, bar.text]));
    const lag = (moments) => moments.findLast(([s]) => s <= at)?.[1];
    slider.value = at;
    slider.setAttribute("aria-valuetext", `${at.toFixed(1)} of ${timeline.end.toFixed(1)} seconds`);
    show({
      clock: at, phase: over ? "over" : drain ? "drain" : at === 0 ? "begin" : "inject",
      counts: { ...counts, attempted: counts.sent }, rates: { ...now, attempted: now.sent }, latency: last ?? { p50: null, p99: null },
      faults: timeline.bars.faults.filter((bar) => bar.kind === "fault" && bar.begin <= at).map((bar) => ({ active: at < bar.end, text: `${at < bar.end ? "active" : "healed"}: ${bar.text}, ${bar.begin.toFixed(1)} s to ${bar.end.toFixed(1)} s` })),
      places: during(timeline.bars.leaders, moment).slice(0, 60).map((bar) => ({ place: bar.row, leader: bar.kind === "no leader" ? null : bar.kind.replace("broker ", ""), epoch: Number(bar.text.split("epoch ")[1] ?? -1), isr: isrs[bar.row] ?? "" })),
      placesLeftOut: Math.max(0, during(timeline.bars.leaders, moment).length - 60), nowhere: "Unknown.",
      lags: Object.fromEntries(Object.entries(timeline.lags).map(([group, moments]) => [group, lag(moments)])), groups: {},
      total: timeline.total,
    });
    chart("moment", at);
    verdict(over ? timeline.verdict : null);
  };
  const stop = () => { playing = false; button.textContent = "Play"; button.setAttribute("aria-pressed", "false"); };
  const tick = (now) => {
    if (!playing) return;
    at = Math.min(timeline.end, at + (now - before) / 1000 * Number(by("speed").value));
    before = now;
    paint();
    if (at >= timeline.end) stop(); else requestAnimationFrame(tick);
  };
  button.addEventListener("click", () => {
    if (playing) { stop(); return; }
    if (at >= timeline.end) at = 0;
    playing = true;
    button.textContent = "Pause";
    button.setAttribute("aria-pressed", "true");
    before = performance.now();
    requestAnimationFrame(tick);
  });
  slider.addEventListener("input", () => { at = Math.min(Number(slider.value), timeline.end); paint(); });
  scenario(timeline.scenario);
  provisional("as recorded");
  paint();
  document.body.dataset.playable = "yes";
}
