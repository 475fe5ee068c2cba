// The list of scenarios, with a search by words; and the run that was started last, while it is running.
import { change, changeable } from "./key.js";
import { say } from "./view.js";

const by = (id) => document.getElementById(id);
const items = [...document.querySelectorAll(".tagged li")];
function search() {
  const words = by("words").value.toLowerCase().split(/\s+/).filter(Boolean);
  items.forEach((item) => { item.hidden = !words.every((word) => item.textContent.toLowerCase().includes(word)); });
  document.querySelectorAll(".tagged").forEach((part) => { part.hidden = ![...part.querySelectorAll("li")].some((item) => !item.hidden); });
  const found = new Set(items.filter((item) => !item.hidden).map((item) => item.querySelector("a").textContent)).size;
  by("found").textContent = words.length ? `${found} found` : "";
}
by("words").addEventListener("input", search);
search(); // for what was typed before this script was there

const mayChange = changeable();
by("keyless").hidden = mayChange || Boolean(document.body.dataset.readOnly);
const now = await (await fetch("/started")).json();
if (now.state && now.state !== "ended") {
  by("going-on").hidden = false;
  by("its-page").textContent = `${now.name || now.scenario} is in progress`;
  if (now.address) by("its-page").href = `${now.address}/live`;
  by("stop").addEventListener("click", async () => {
    try { await change("/started/stop", { run: now.name }); say("Stopping the run; it cleans up after itself."); } catch (error) { say(error.message); }
  });
}
document.body.dataset.ready = "yes";
