// The form of a scenario: checks each change at once, and starts a run with the changed values.
import { change, changeable } from "./key.js";
import { say } from "./view.js";

const by = (id) => document.getElementById(id);
const scenario = document.body.dataset.scenario, form = by("form");
const mayChange = changeable();
by("keyless").hidden = mayChange || Boolean(document.body.dataset.readOnly);

const fields = [...form.querySelectorAll(".field[data-key]")].map((place) => {
  const input = place.querySelector("input, select");
  return { place, input, key: place.dataset.key, before: input.value };
});
const changed = () => fields.filter(({ input, before }) => input.value !== before);

// Shows a mistake at its field, else at the block that contains it.
function show(mistakes) {
  form.querySelectorAll(".mistake").forEach((old) => old.remove());
  fields.forEach(({ input }) => input.removeAttribute("aria-invalid"));
  const left = [];
  for (const { key: at, text } of mistakes) {
    const field = fields.find((one) => one.key === at) ?? fields.find((one) => at.startsWith(`${one.key}.`));
    const parts = at.split("."), blocks = parts.map((_, count) => parts.slice(0, parts.length - count).join("."));
    const block = blocks.map((name) => form.querySelector(`fieldset[data-key="${CSS.escape(name)}"]`)).find(Boolean);
    if (!field && !block) { left.push(at ? `${at}: ${text}` : text); continue; }
    const note = Object.assign(document.createElement("p"), { className: "mistake", textContent: field || block.dataset.key === at ? text : `${at}: ${text}` });
    if (field) {
      note.id = `${field.input.id}-mistake`;
      field.input.setAttribute("aria-invalid", "true");
      field.place.append(note);
      const folded = field.place.closest("details");
      if (folded) folded.open = true;
    } else block.querySelector("legend").after(note);
  }
  say(left.join("\n"));
}

let asked = 0;
async function check() {
  const mine = ++asked, changes = changed();
  fields.forEach(({ place, input, before }) => place.classList.toggle("changed", input.value !== before));
  by("count").textContent = changes.length === 0 ? "No changes." : changes.length === 1 ? "1 value changed." : `${changes.length} values changed.`;
  const query = new URLSearchParams(changes.map(({ key: name, input }) => ["set", `${name}=${input.value}`]));
  const answer = await fetch(`/new/${scenario}/check?${query}`);
  if (mine !== asked || !answer.ok) return undefined;
  const { mistakes, command } = await answer.json();
  const seed = by("seed").value ? ` --seed ${by("seed").value}` : "";
  if (command) by("command").textContent = command + seed;
  show(mistakes);
  document.body.dataset.checked = String(mine);
  return mistakes;
}
form.addEventListener("change", check);

async function follow() {
  for (;;) {
    const now = await (await fetch("/started")).json();
    by("output").textContent = (now.said ?? []).join("\n");
    if (now.state === "ended") {
      by("going").textContent = `The run ended with exit status ${now.status}`;
      by("stop").hidden = true;
      by("start").disabled = false;
      if (!now.address) return;
    }
    if (now.address) { location.href = `${now.address}/live`; return; }
    await new Promise((done) => setTimeout(done, 500));
  }
}
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (!mayChange) return;
  by("start").disabled = true;
  try {
    const mistakes = await check();
    if (mistakes?.length) {
      form.querySelector("[aria-invalid]")?.focus();
      by("start").disabled = false;
      return;
    }
    const wanted = { set: Object.fromEntries(changed().map(({ key: name, input }) => [name, input.value])) };
    if (by("seed").value) wanted.seed = Number(by("seed").value);
    await change(`/new/${scenario}/start`, wanted);
    by("progress-of-it").hidden = false;
    by("progress-of-it").scrollIntoView();
    await follow();
  } catch (error) { say(error.message); by("message").scrollIntoView(); by("start").disabled = false; }
});
by("stop").addEventListener("click", async () => {
  try { await change("/started/stop", { run: "" }); by("going").textContent = "Stopping the run"; } catch (error) { say(error.message); }
});
await check();
document.body.dataset.ready = "yes";
