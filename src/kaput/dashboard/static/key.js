// The key that changes need comes behind the # of the address that kaput printed: it is kept for this browser's
// next pages, and taken out of the address bar. A server never sees it there; it is sent as a header.
const NAME = "kaput-key";
if (location.hash.length > 20) {
  localStorage.setItem(NAME, location.hash.slice(1));
  history.replaceState(null, "", location.pathname + location.search);
}
export const key = () => localStorage.getItem(NAME) ?? "";

// Whether this page may change anything; where it may not, it hides what would.
export function changeable() {
  const may = !document.body.dataset.readOnly && key() !== "";
  document.body.classList.toggle("reading", !may);
  return may;
}

// Asks for a change; the answer. Throws an Error with the sentence to be shown.
export async function change(path, wanted) {
  const answer = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json", "X-Kaput-Key": key() }, body: JSON.stringify(wanted) });
  const found = await answer.json().catch(() => ({ error: `the dashboard answered with status ${answer.status}` }));
  if (!answer.ok) throw new Error(found.error);
  return found;
}
