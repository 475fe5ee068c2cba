// Draws the charts, zooms them together, and reads any moment of the run aloud or by sight.
"use strict";
(async () => {
  const course = JSON.parse(document.getElementById("course").textContent);
  const rows = (block) => block.s.map((_, i) => Object.fromEntries(block.names.map((name, k) => [name, block.columns[k][i]])));
  const overview = rows(course.overview), fine = rows(course.fine);
  const area = document.querySelector(".chartarea");
  const PAPER_PX = 700, views = [], recoveries = [], whole = [0, course.end];
  let shown = [...whole], at = null;
  const config = { background: null, view: { stroke: null }, font: "system-ui, Helvetica, Arial, sans-serif", legend: { disable: true }, autosize: { type: "fit-x", contains: "padding" } };

  for (const [name, spec] of Object.entries(course.charts)) {
    spec.width = "container";
    spec.datasets = { ...(spec.datasets || {}), ...structuredClone(course.data), steps: overview };
    const place = document.getElementById("chart-" + name);
    const made = await window.vegaEmbed(place, spec, { actions: false, renderer: "svg", config, tooltip: false });
    place.querySelectorAll("svg").forEach((svg) => svg.setAttribute("aria-hidden", "true"));
    (name.startsWith("recovery-") ? recoveries : views).push({ place, view: made.view, steps: "overview" });
  }
  if (!area) { document.body.dataset.ready = "yes"; return; }

  const frame = () => {
    const { place, view } = views[0], left = place.getBoundingClientRect().left - area.getBoundingClientRect().left;
    return { left: left + view.origin()[0], width: view.width() };
  };
  const zoom = async (from, to) => {
    const least = Math.max(4 * course.fine.width, course.end / 1000);
    const middle = (from + to) / 2, half = Math.max(to - from, least) / 2;
    const span = Math.min(2 * half, course.end);
    from = Math.min(Math.max(middle - half, 0), course.end - span);
    shown = [from, from + span];
    // A close look has the finest steps.
    const want = span < course.end * 0.6 && span / course.fine.width <= 600 ? "fine" : "overview";
    await Promise.all(views.map(async (one) => {
      if (one.steps !== want && one.view.getState({ data: (n) => n === "steps" }).data.steps) {
        one.view.data("steps", (want === "fine" ? fine : overview).map((row) => ({ ...row })));
        one.steps = want;
      }
      await one.view.signal("wide", one.view.width()).signal("x0", shown[0]).signal("x1", shown[1]).runAsync();
    }));
    point(at);
  };

  const number = (v) => v === null || v === undefined ? "–" : v >= 100 ? Math.round(v).toLocaleString("en") : String(+v.toPrecision(3));
  const readout = area.querySelector(".readout"), cursor = area.querySelector(".cursor");
  const during = (bars, s) => bars.filter((bar) => bar.begin <= s && s < bar.end);
  const say = (s) => {
    const steps = shown[1] - shown[0] < course.end * 0.6 ? fine : overview;
    const width = steps === fine ? course.fine.width : course.overview.width;
    const row = steps.findLast((one) => one.s <= s && s < one.s + width);
    const parts = [`${s.toFixed(2)} s`];
    if (row) {
      parts.push(`sent ${number(row.sent_rate)}/s`, `acknowledged ${number(row.acked_rate)}/s`);
      if (row.bad_rate) parts.push(`failed or unknown ${number(row.bad_rate)}/s`);
      if (row.lost_rate) parts.push(`of it lost ${number(row.lost_rate)}/s`);
      if (row.ack_p50_ms !== null) parts.push(`ack p50 ${number(row.ack_p50_ms)} ms, p99 ${number(row.ack_p99_ms)} ms, max ${number(row.ack_max_ms)} ms`);
    }
    during(course.faults, s).forEach((bar) => parts.push(bar.text));
    const led = during(course.leaders, s);
    if (led.length && led.length <= 3) led.forEach((bar) => parts.push(`${bar.row}: ${bar.text}`));
    return parts.join(" · ");
  };
  const point = (s) => {
    at = s;
    const hide = s === null || s < shown[0] || s > shown[1];
    cursor.hidden = hide; readout.hidden = hide; cursor.className = "cursor"; cursor.style.width = "";
    if (hide) return;
    const { left, width } = frame();
    cursor.style.left = `${left + (s - shown[0]) / (shown[1] - shown[0]) * width}px`;
    readout.textContent = say(s);
  };
  const second = (event) => {
    const { left, width } = frame();
    const share = (event.clientX - area.getBoundingClientRect().left - left) / width;
    return shown[0] + Math.min(Math.max(share, 0), 1) * (shown[1] - shown[0]);
  };

  let from = null;
  area.addEventListener("pointerdown", (event) => { if (event.button === 0 && event.pointerType === "mouse") { from = second(event); event.preventDefault(); area.focus({ preventScroll: true }); } });
  area.addEventListener("pointermove", (event) => {
    point(second(event));
    if (from === null) return;
    const { left, width } = frame(), to = second(event), span = shown[1] - shown[0];
    cursor.className = "cursor range";
    cursor.style.left = `${left + (Math.min(from, to) - shown[0]) / span * width}px`;
    cursor.style.width = `${Math.abs(to - from) / span * width}px`;
  });
  window.addEventListener("pointerup", (event) => {
    if (from === null) return;
    const to = second(event), begin = from; from = null;
    if (Math.abs(to - begin) > (shown[1] - shown[0]) / 100) zoom(Math.min(begin, to), Math.max(begin, to)); else point(to);
  });
  area.addEventListener("pointerleave", () => { if (from === null && document.activeElement !== area) point(null); });
  area.addEventListener("dblclick", () => zoom(...whole));
  const scaled = (by) => { const m = at ?? (shown[0] + shown[1]) / 2, h = (shown[1] - shown[0]) / 2 * by; zoom(m - h, m + h); };
  area.addEventListener("keydown", (event) => {
    const step = (shown[1] - shown[0]) / 50, now = at ?? shown[0];
    const keys = {
      ArrowRight: () => point(Math.min(now + step, shown[1])), ArrowLeft: () => point(Math.max(now - step, shown[0])),
      Home: () => point(shown[0]), End: () => point(shown[1]), "+": () => scaled(0.5), "=": () => scaled(0.5), "-": () => scaled(2),
      Escape: () => { zoom(...whole); point(null); },
    };
    if (keys[event.key] && !event.ctrlKey && !event.metaKey && !event.altKey) { keys[event.key](); event.preventDefault(); }
  });
  const tools = document.querySelector(".tools");
  tools.hidden = false;
  tools.addEventListener("click", (event) => {
    const wanted = event.target.dataset.zoom;
    if (wanted === "all") zoom(...whole);
    else if (wanted === "in") scaled(0.5);
    else if (wanted === "out") scaled(2);
    else if (wanted) zoom(...wanted.split(",").map(Number));
  });
  // Paper is narrower than most windows: drawn for its width, text keeps its size.
  window.addEventListener("beforeprint", () => { views.forEach((one) => one.view.signal("wide", PAPER_PX)); views.concat(recoveries).forEach((one) => one.view.width(PAPER_PX).run()); });
  window.addEventListener("afterprint", () => { views.concat(recoveries).forEach((one) => one.view.width(one.place.clientWidth).run()); zoom(...shown); });
  let wait = 0;
  window.addEventListener("resize", () => { clearTimeout(wait); wait = setTimeout(() => zoom(...shown), 150); });
  await zoom(...whole);
  document.body.dataset.ready = "yes";
})().catch((error) => { document.body.dataset.ready = "no"; console.error(error); });
