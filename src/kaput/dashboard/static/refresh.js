// Fetches this page again, and replaces a part of it if that has changed.
export async function refresh(part, mayReplace = () => true) {
  try {
    const answer = await fetch(location.href);
    if (!answer.ok) return;
    const latest = part(new DOMParser().parseFromString(await answer.text(), "text/html"));
    if (latest && mayReplace() && latest.innerHTML !== part(document).innerHTML) part(document).replaceWith(latest);
  } catch { /* the dashboard has stopped: the page keeps what it shows */ }
}
