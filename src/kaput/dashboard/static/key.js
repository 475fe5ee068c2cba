// The key that every change needs follows the # in the address that kaput printed. It is stored in this browser
// and removed from the address bar. Browsers never send that part to a server; the key is sent as a header.
const NAME = "kaput-key";
if (location.hash.length > 20) {
  localStorage.setItem(NAME, location.hash.slice(1));
  history.replaceState(null, "", location.pathname + location.search);
}
export const key = () => localStorage.getItem(NAME) ?? "";

// Whether this page may change anything; if not, hides the controls that would.
export function changeable() {
  const may = !document.body.dataset.readOnly && key() !== "";
  document.body.classList.toggle("reading", !may);
  return may;
}

// Requests a change and returns the response. Throws an Error with the message to show.
export async function change(path, wanted) {
  const answer = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json", "X-Kaput-Key": key() }, body: JSON.stringify(wanted) });
  const found = await answer.json().catch(() => ({ error: `the dashboard answered with status ${answer.status}` }));
  if (!answer.ok) throw new Error(found.error);
  return found;
}
