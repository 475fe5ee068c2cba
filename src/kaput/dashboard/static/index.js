// Two runs are ticked, no more.
const form = document.getElementById("compare"), said = document.getElementById("ticked");
const boxes = [...form.querySelectorAll("input[type=checkbox]")];
const ticked = () => boxes.filter((box) => box.checked);
const tell = () => {
  const count = ticked().length;
  boxes.forEach((box) => { box.disabled = count >= 2 && !box.checked; });
  said.textContent = count === 2 ? "Two runs are ticked." : count === 1 ? "Tick one more." : "Tick two runs that were judged.";
};
form.addEventListener("change", tell);
form.addEventListener("submit", (event) => { if (ticked().length !== 2) { event.preventDefault(); tell(); } });
document.querySelector(".filter select").addEventListener("change", (event) => event.target.form.requestSubmit());
tell();
