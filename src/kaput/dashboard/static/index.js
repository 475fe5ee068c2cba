// The list of runs: selects runs to compare, and keeps the list up to date.
import { refresh } from "./refresh.js";

const EVERY_MS = 5000, MOST = 8;
const form = document.getElementById("compare"), hint = document.getElementById("ticked");
const boxes = () => [...form.querySelectorAll("input[type=checkbox]")];
const ticked = () => boxes().filter((box) => box.checked);
const tell = () => {
  const count = ticked().length;
  boxes().forEach((box) => { box.disabled = count >= MOST && !box.checked; });
  hint.textContent = count >= 2 ? `${count} runs selected.` : count === 1 ? "Select one more." : "Select two or more judged runs.";
};
form.addEventListener("change", tell);
form.addEventListener("submit", (event) => { if (ticked().length < 2) { event.preventDefault(); tell(); } });
document.querySelector(".filter select").addEventListener("change", (event) => event.target.form.requestSubmit());
tell();

// Nothing moves while in use: a list with a ticked or focused row is not refreshed.
const rows = (page) => page.querySelector("#compare table");
const idle = () => !document.hidden && !ticked().length && !form.contains(document.activeElement);
setInterval(() => { if (idle()) refresh(rows, idle); }, EVERY_MS);
