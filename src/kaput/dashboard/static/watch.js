// A watch of topics: its counts are fetched again while it lasts.
import { refresh } from "./refresh.js";

const EVERY_MS = 2000;
const now = (page) => page.getElementById("now");
const timer = setInterval(async () => {
  if (document.hidden) return;
  await refresh(now);
  if (now(document).querySelector(".tag").textContent === "ended") clearInterval(timer);
}, EVERY_MS);
