// A search: each event is its complete current state, sent whenever it changes.
import { number, say } from "./view.js";

const by = (id) => document.getElementById(id);
const at = document.body.dataset.search;
const make = (tag, text = "", className = "") => Object.assign(document.createElement(tag), { textContent: text, className });
const lasted = (s) => s >= 60 ? `${Math.floor(s / 60)} min ${Math.round(s % 60)} s` : `${Math.round(s)} s`;
const WORDS = { found: "confirmed", candidate: "not confirmed yet", rejected: "rejected" };
const NAMES = { "report.html": "report", "scenario.yaml": "scenario", "bug-report.md": "bug report" };
let writtenNs = 0;

function row(cells) {
  const made = document.createElement("tr");
  cells.forEach((cell, index) => {
    const [text, className] = Array.isArray(cell) ? cell : [cell, "text"];
    const place = make(index ? "td" : "th", "", className);
    if (!index) place.scope = "row";
    place.append(...[text].flat());
    made.append(place);
  });
  return made;
}
const lines = (texts) => texts.flatMap((text) => [make("div", text)]);

function find(of) {
  const links = of.parts.flatMap((part) => [Object.assign(make("a", NAMES[part]), { href: `${at}/finds/${encodeURIComponent(of.name)}/${part}` }), " "]);
  if (of.command) links.push(make("small", of.command));
  const again = of.again ? `; seen in ${of.again} more draws` : "";
  return row([of.symptom, [WORDS[of.state], of.state === "found" ? "text bad" : "text"], `${lasted(of.after_s)}, ${of.after} experiments`, of.rate ? `in ${of.rate} tries${again}` : "", [lines(of.needs), "text"], [links, "text"]]);
}
const experiment = (of) => row([[String(of.id), ""], of.find ? `${of.purpose} of find ${of.find}` : of.purpose, [number(of.seconds), ""], [of.shown, of.bad ? "text bad" : "text"], of.new ? "yes" : "", [lines(of.steps), "text"]]);

function figures(of) {
  const found = {
    "experiments": number(of.experiments), "per hour": number(of.per_hour), "choices tried": `${of.choices_tried} of ${of.choices}`, "signatures seen": number(of.signatures),
    "confirmed": of.found, "not confirmed yet": of.unconfirmed, "rejected": of.rejected, "failed to run": of.failed,
  };
  by("figures").replaceChildren(...Object.entries(found).map(([name, value]) => { const item = make("li"); item.append(make("b", value), make("span", name)); return item; }));
}

async function draw(data) {
  while (!document.body.dataset.ready) await new Promise((done) => setTimeout(done, 50));
  document.dispatchEvent(new CustomEvent("data", { detail: { name: "coverage", data } }));
}

function age() {
  const s = Date.now() / 1000 - writtenNs / 1e9;
  by("age").textContent = writtenNs ? `last updated ${lasted(Math.max(0, s))} ago` : "";
}
setInterval(age, 1000);

const source = new EventSource(`${at}/events`);
source.addEventListener("message", (event) => {
  const of = JSON.parse(event.data);
  writtenNs = of.written_ns;
  by("title").textContent = of.title;
  by("about").textContent = `${lasted(of.spent_s)} of search, seed ${of.seed}${of.control ? ", control: no finds expected" : ""}${of.playing ? `; ${of.playing} running` : ""}`;
  figures(of);
  by("finds").replaceChildren(...of.finds.map(find));
  by("no-finds").hidden = of.finds.length > 0;
  by("latest").replaceChildren(...of.latest.map(experiment));
  draw({ curve: of.curve, finds: of.finds.filter((one) => one.state !== "rejected").map((one) => ({ draw: one.after, state: one.state })) });
  age();
  say("");
  document.body.dataset.version = event.lastEventId;
});
source.addEventListener("end", (event) => { source.close(); say(event.data); });
source.addEventListener("error", () => { if (source.readyState !== EventSource.CLOSED) say("The dashboard is not responding: it has stopped or is restarting."); });
