// The control room: each event is the current state of the cluster. Injects and heals faults after a confirmation.
import { change, changeable } from "./key.js";
import { chart, number, say } from "./view.js";

const by = (id) => document.getElementById(id);
const at = document.body.dataset.cluster;
const mayChange = changeable();
if (!mayChange && !document.body.dataset.readOnly) say("To inject faults, open the address that kaput printed: it contains the key.");

const make = (tag, text = "", className = "") => Object.assign(document.createElement(tag), { textContent: text, className });
const list = (ids) => ids.join(", ") || "none";
const ns = (value) => new Date(value / 1e6).toLocaleTimeString("en-GB");
const write = (cell, text) => { if (cell.textContent !== String(text)) cell.textContent = text; };
const title = (node) => `${node.role === "combined" ? "broker" : node.role} ${node.id}`;

// Updates a list in place: elements are reused by key, so that nothing moves while it is clicked or focused.
function keep(place, items, makeOne, update) {
  const known = new Map([...place.children].map((child) => [child.dataset.key, child]));
  items.forEach((item, index) => {
    let child = known.get(item.key);
    known.delete(item.key);
    if (!child) { child = makeOne(item); child.dataset.key = item.key; }
    if (place.children[index] !== child) place.insertBefore(child, place.children[index] ?? null);
    update(child, item);
  });
  known.forEach((child) => child.remove());
}
const TEXT = ["text", "text", "text", "text", "text", "text", "text", "text"];
function rows(place, items, classes = TEXT) {
  const makeOne = ({ cells, target }) => {
    const row = document.createElement("tr");
    cells.forEach((_, index) => { const cell = make(index ? "td" : "th", "", classes[index] ?? ""); if (!index) cell.scope = "row"; row.append(cell); });
    if (target) {
      const cell = make("td", "", "changes"), button = make("button", "Break…");
      button.type = "button";
      button.dataset.target = target;
      button.setAttribute("aria-label", `Inject a fault: ${target}`);
      cell.append(button);
      row.append(cell);
    }
    return row;
  };
  keep(place, items, makeOne, (row, { cells, bad }) => { cells.forEach((cell, index) => write(row.children[index], cell)); row.classList.toggle("wrong", Boolean(bad)); });
}
const lines = (place, items) => keep(place, items, () => make("li"), (item, { text, active }) => { write(item, text); item.classList.toggle("active", Boolean(active)); });

function figures(now) {
  const nodes = [...now.brokers, ...now.others], running = nodes.filter((node) => node.state === "running").length;
  const places = now.partitions ?? [], firing = now.alerts.filter((alert) => alert.state === "firing" && !alert.inhibited_by.length);
  const known = now.partitions !== null;
  const found = {
    "written per second": number(now.written_per_s), "committed per second": number(now.read_per_s), "nodes running": `${running} of ${nodes.length}`,
    "under-replicated": known ? places.filter((p) => p.under_replicated).length : "–", "without a leader": known ? places.filter((p) => p.leader === null).length : "–",
    "alerts firing": firing.length, "active faults": now.faults.length,
  };
  keep(by("figures"), Object.entries(found).map(([name, value]) => ({ key: name, name, value })),
    ({ name }) => { const item = make("li"); item.append(make("b"), make("span", name)); return item; },
    (item, { value }) => write(item.firstChild, value));
}

function tables(now) {
  const nodes = [...now.brokers, ...now.others], states = Object.fromEntries(now.brokers.map((node) => [node.id, node.state]));
  const place = (p) => `${p.topic}/${p.partition}`, lags = new Map();
  for (const group of now.groups ?? []) for (const p of group.partitions) lags.set(place(p), p.lag === null || lags.get(place(p)) === null ? null : (lags.get(place(p)) ?? 0) + p.lag);
  const member = (node) => node.role === "controller" || node.role === "zookeeper" ? "" : now.registered === null ? "unknown" : now.registered.includes(node.id) ? "registered" : "fenced";
  const active = (node) => now.controllers?.includes(node.id) ? " (active controller)" : "";
  rows(by("nodes"), nodes.map((node) => ({
    key: title(node), bad: node.state !== "running" || member(node) === "fenced", target: node.role === "controller" || node.role === "zookeeper" ? "" : `broker ${node.id}`,
    cells: [title(node) + active(node), node.state, member(node), (now.partitions ?? []).filter((p) => p.leader === node.id).length],
  })), ["text", "text", "text", ""]);
  const note = (p) => p.leader === null ? "no leader" : (states[p.leader] ?? "running") !== "running" ? `its leader is ${states[p.leader]}` : p.under_replicated ? "under-replicated" : "";
  rows(by("partitions"), (now.partitions ?? []).map((p) => ({
    key: place(p), bad: note(p), target: `leader-of ${place(p)}`,
    cells: [place(p), p.leader ?? "none", p.leader_epoch, list(p.replicas), list(p.isr), number(p.written_per_s), lags.has(place(p)) ? number(lags.get(place(p))) : "", note(p)],
  })), ["text", "", "", "text", "text", "", "", "text"]);
  write(by("partitions-more"), now.partitions === null ? "Unknown: no broker is responding." : now.partitions_left_out ? `${now.partitions_left_out} more partitions are not shown.` : now.partitions.length ? "" : "No topics.");
  rows(by("groups"), (now.groups ?? []).map((group) => {
    const ages = group.partitions.map((p) => p.lag_s);
    return { key: group.group, cells: [group.group, number(group.lag), ages.includes(null) ? "–" : `${number(Math.max(0, ...ages))} s`] };
  }), ["text", "", ""]);
}

function faults(now) {
  const found = [...now.fault_history].reverse().map((fault) => ({ key: fault.id, active: fault.state === "active", fault, text: `${fault.state}: ${fault.fault} ${fault.target} (node ${list(fault.brokers)}) since ${ns(fault.effective_ns)}${fault.healed_ns ? ` until ${ns(fault.healed_ns)}` : ""}. ${fault.proof}` }));
  const makeOne = ({ fault }) => {
    const item = make("li"), button = make("button", "Heal…", "changes");
    button.type = "button";
    button.dataset.heal = fault.id;
    button.setAttribute("aria-label", `Heal ${fault.id}`);
    item.append(make("span"), " ", button);
    return item;
  };
  keep(by("faults"), found, makeOne, (item, { text, active }) => {
    write(item.firstChild, text);
    item.classList.toggle("active", active);
    item.lastChild.hidden = !active;
  });
  if (!found.length) by("faults").replaceChildren(make("li", "none so far"));
}

function timeline(now) {
  const second = (value) => (value - now.asked_ns) / 1e9;
  const steps = now.history.map(([moment, written, committed]) => ({ s: second(moment), m: second(moment), t: second(moment), written_rate: written, committed_rate: committed }));
  const kinds = { election: "election", isr: "ISR change" };
  chart("newer", {
    width: 1.5, end: 0, steps: steps.length ? steps : [{ s: 0, m: 0, t: 0, written_rate: 0, committed_rate: 0 }],
    faults: now.fault_history.map((fault) => ({ begin: second(fault.effective_ns), end: fault.healed_ns ? second(fault.healed_ns) : 0, kind: "fault", text: `${fault.fault} ${fault.target}` })).filter((bar) => bar.end > -300),
    moments: now.events.filter((event) => kinds[event.kind]).map((event) => ({ at: second(event.at_ns), kind: kinds[event.kind] })),
  });
  lines(by("events"), [...now.events].reverse().map((event) => ({ key: `${event.at_ns} ${event.text}`, text: `${ns(event.at_ns)}  ${event.text}`, active: event.text.startsWith("FIRING") })));
  if (!now.events.length) by("events").replaceChildren(make("li", "no changes yet"));
}

const source = new EventSource(`${at}/events`);
source.addEventListener("message", (event) => {
  const now = JSON.parse(event.data);
  if (now.trouble) { say(now.trouble); return; }
  document.body.dataset.network = now.network;
  write(by("about"), `Kafka ${now.kafka}, ${now.mode}, ${now.bootstrap_servers}`);
  const age = (now.asked_ns - now.at_ns) / 1e9;
  write(by("age"), age > 3 ? `${number(age)} s old` : "");
  figures(now);
  lines(by("alerts"), now.alerts.length ? now.alerts.map((alert) => ({
    key: `${alert.rule} ${alert.summary}`, active: alert.state === "firing" && !alert.inhibited_by.length,
    text: `${alert.state} ${alert.severity} ${alert.rule} since ${ns(alert.since_s * 1e9)}: ${alert.summary}${alert.inhibited_by.length ? ` (explained by ${list(alert.inhibited_by)})` : ""}. ${alert.why}`,
  })) : [{ key: "none", text: "none" }]);
  faults(now);
  tables(now);
  timeline(now);
  document.body.dataset.version = event.lastEventId;
});
source.addEventListener("end", (event) => { source.close(); say(event.data); document.body.dataset.ended = "yes"; });
source.addEventListener("error", () => { if (source.readyState !== EventSource.CLOSED) say("The dashboard is not responding: it has stopped or is restarting."); });
source.addEventListener("open", () => { if (by("message").textContent.startsWith("The dashboard is not responding")) say(""); });

// Faults. A request is shown until it is answered.
let kinds = [];
const chosen = () => kinds.find((kind) => kind.fault === by("fault").value);
function describe() {
  write(by("effect"), chosen() ? `${chosen().effect} Proven by: ${chosen().proof}` : "");
  by("options").replaceChildren(...Object.entries(chosen()?.options ?? {}).map(([name, value]) => {
    const line = make("p"), label = make("label", `${name} `), input = Object.assign(make("input"), { name, maxLength: 300, placeholder: value ?? "" });
    label.append(input);
    line.append(label);
    return line;
  }));
}
async function attempt(doing, path, wanted) {
  say(`${doing}…`);
  try { await change(`${at}/${path}`, wanted); say(""); } catch (error) { say(error.message); }
}
const dialog = by("inject"), healing = by("healing");
async function open(target) {
  if (!kinds.length) {
    const answer = await fetch(`${at}/kinds`);
    if (!answer.ok) { say("The cluster is not responding."); return; }
    kinds = await answer.json();
    by("fault").replaceChildren(...kinds.map((kind) => make("option", kind.fault)));
    by("fault").value = "kill";
  }
  const targets = ["any", "controller", "minority", ...[...document.querySelectorAll("[data-target]")].map((button) => button.dataset.target)];
  by("targets").replaceChildren(...[...new Set(targets)].map((value) => Object.assign(make("option"), { value })));
  by("target").value = target;
  describe();
  dialog.showModal();
}
by("fault").addEventListener("change", describe);
dialog.addEventListener("close", () => {
  if (dialog.returnValue !== "yes") return;
  const options = Object.fromEntries([...by("options").querySelectorAll("input")].map((input) => [input.name, input.value]));
  attempt(`Injecting ${by("fault").value} ${by("target").value}`, "inject", { fault: by("fault").value, target: by("target").value, options, for: by("for").value });
});
healing.addEventListener("close", () => { if (healing.returnValue === "yes") attempt(`Healing ${healing.dataset.fault}`, "heal", { fault: healing.dataset.fault }); });
document.addEventListener("click", ({ target }) => {
  if (target.dataset.target) { dialog.returnValue = ""; open(target.dataset.target); }
  if (target.dataset.heal) {
    healing.dataset.fault = target.dataset.heal;
    write(by("healed"), target.dataset.heal);
    healing.returnValue = "";
    healing.showModal();
  }
});
