"use strict";
// Words explained on hover and focus.
(() => {
  let box = null;
  const hide = () => { if (box) box.remove(); box = null; };
  const show = (event) => {
    const word = event.target.closest && event.target.closest("dfn");
    if (!word) return;
    hide();
    box = document.createElement("div"); box.className = "says"; box.setAttribute("role", "tooltip"); box.textContent = word.dataset.says;
    document.body.append(box);
    const place = word.getBoundingClientRect(), left = Math.min(place.left, document.documentElement.clientWidth - box.offsetWidth - 8);
    box.style.left = `${Math.max(8, left) + scrollX}px`; box.style.top = `${place.bottom + 6 + scrollY}px`;
  };
  for (const kind of ["mouseover", "focusin"]) document.addEventListener(kind, show);
  for (const kind of ["mouseout", "focusout", "scroll"]) document.addEventListener(kind, hide);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
})();
