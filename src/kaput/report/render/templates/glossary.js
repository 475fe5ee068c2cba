"use strict";
// Shows glossary entries on hover and focus; makes scrollable tables focusable.
(() => {
  let box = null;
  const hide = () => { if (box) box.remove(); box = null; };
  const show = (event) => {
    const word = event.target.closest && event.target.closest("dfn");
    if (!word) return;
    hide();
    box = document.createElement("div"); box.className = "about-word"; box.setAttribute("role", "tooltip"); box.textContent = word.dataset.about;
    document.body.append(box);
    const place = word.getBoundingClientRect(), left = Math.min(place.left, document.documentElement.clientWidth - box.offsetWidth - 8);
    box.style.left = `${Math.max(8, left) + scrollX}px`; box.style.top = `${place.bottom + 6 + scrollY}px`;
  };
  for (const kind of ["mouseover", "focusin"]) document.addEventListener(kind, show);
  // Not "scroll": the box moves with the page, and a focused element is scrolled into view a moment later.
  for (const kind of ["mouseout", "focusout"]) document.addEventListener(kind, (event) => { if (event.target.closest && event.target.closest("dfn")) hide(); });
  // Scrollable elements can be focused, and so scrolled, by keyboard.
  const reach = new ResizeObserver((all) => { for (const { target } of all) if (target.scrollWidth > target.clientWidth || target.scrollHeight > target.clientHeight) target.tabIndex = 0; else target.removeAttribute("tabindex"); });
  document.querySelectorAll(".scroll").forEach((one) => reach.observe(one));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
})();
