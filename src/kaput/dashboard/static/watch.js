// A watch of topics: its counts are fetched again while it lasts.
const EVERY_MS = 2000;
const now = (page) => page.getElementById("now");
const ended = () => now(document).querySelector(".tag").textContent === "ended";
const timer = setInterval(async () => {
  if (document.hidden) return;
  try {
    const answer = await fetch(location.href);
    if (!answer.ok) return;
    const latest = now(new DOMParser().parseFromString(await answer.text(), "text/html"));
    if (latest && latest.innerHTML !== now(document).innerHTML) now(document).replaceWith(latest);
    if (ended()) clearInterval(timer);
  } catch { /* the dashboard has stopped: the page keeps what it shows */ }
}, EVERY_MS);
