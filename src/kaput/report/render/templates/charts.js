// Draws the charts, zooms them together, and shows the values at any moment, also to screen readers. Uses no
// eval, so that a page can forbid it.
"use strict";
(async () => {
  const page = JSON.parse(document.getElementById("charts").textContent);
  const rows = (block) => block.columns[0].map((_, i) => Object.fromEntries(block.names.map((name, k) => [name, block.columns[k][i]])));
  for (const run of page.runs) run.steps = { overview: rows(run.overview), fine: rows(run.fine) };
  const area = document.querySelector(".chartarea");
  const PAPER_PX = 700, views = [], others = [], whole = [page.begin, page.end];
  let shown = [...whole], at = null, length = page.end - page.begin;
  const config = { background: null, view: { stroke: null }, font: "system-ui, Helvetica, Arial, sans-serif", legend: { disable: true }, autosize: { type: "fit-x", contains: "padding" } };

  // A live page begins without data, which Vega would warn about.
  const draw = async (name, spec, datasets) => {
    spec.width = "container";
    spec.datasets = { ...(spec.datasets || {}), ...datasets };
    const place = document.getElementById("chart-" + name);
    const made = await window.vegaEmbed(place, spec, { mode: "vega-lite", actions: false, ast: true, defaultStyle: false, renderer: "svg", config, tooltip: false, logLevel: "run" in document.body.dataset ? 1 : 2 });
    place.querySelectorAll("svg").forEach((svg) => svg.setAttribute("aria-hidden", "true"));
    return { place, view: made.view };
  };
  for (const run of page.runs) for (const [name, spec] of Object.entries(run.charts)) {
    const data = { ...structuredClone(run.data), [run.key + "steps"]: run.steps.overview.map((row) => ({ ...row })) };
    views.push({ ...await draw(run.key + name, spec, data), run, steps: "overview" });
  }
  for (const [name, spec] of Object.entries(page.others)) others.push({ ...await draw(name, spec, {}), name });
  // New data for a chart while the page is open.
  document.addEventListener("data", ({ detail: { name, data } }) => {
    const { view } = others.find((one) => one.name === name);
    for (const [set, rows] of Object.entries(data)) view.data(set, rows.map((row) => ({ ...row })));
    view.runAsync();
  });
  if (!area) { document.body.dataset.ready = "yes"; return; }

  const frame = () => {
    const { place, view } = views[0], left = place.getBoundingClientRect().left - area.getBoundingClientRect().left;
    return { left: left + view.origin()[0], width: view.width() };
  };
  // A zoomed view has the finest steps.
  const level = (run) => shown[1] - shown[0] < length * 0.6 && (shown[1] - shown[0]) / run.fine.width <= 600 ? "fine" : "overview";
  const zoom = async (from, to) => {
    const middle = (from + to) / 2, half = Math.max(to - from, 4 * Math.min(...page.runs.map((run) => run.fine.width)), length / 1000) / 2;
    const span = Math.min(2 * half, length);
    from = Math.min(Math.max(middle - half, whole[0]), whole[1] - span);
    shown = [from, from + span];
    await Promise.all(views.map(async (one) => {
      const name = one.run.key + "steps", want = level(one.run);
      if (one.steps !== want && one.view.getState({ data: (n) => n === name }).data[name]) {
        one.view.data(name, one.run.steps[want].map((row) => ({ ...row })));
        one.steps = want;
      }
      await one.view.signal("wide", one.view.width()).signal("x0", shown[0]).signal("x1", shown[1]).runAsync();
    }));
    point(at);
  };

  const number = (v) => v === null || v === undefined ? "–" : v >= 100 ? Math.round(v).toLocaleString("en") : String(+v.toPrecision(3));
  const readout = area.querySelector(".readout"), cursor = area.querySelector(".cursor");
  const during = (bars, s) => bars.filter((bar) => bar.begin <= s && s < bar.end);
  const reading = (run, s) => {
    const steps = run.steps[level(run)], width = run[level(run)].width;
    const row = steps.findLast((one) => one.s <= s && s < one.s + width), parts = [];
    if (row?.written_rate !== undefined) parts.push(`written ${number(row.written_rate)}/s`, `committed ${number(row.committed_rate)}/s`);
    else if (row) {
      parts.push(`sent ${number(row.sent_rate)}/s`, `acknowledged ${number(row.acked_rate)}/s`);
      if (row.bad_rate) parts.push(`failed or unknown ${number(row.bad_rate)}/s`);
      if (row.lost_rate) parts.push(`of which lost ${number(row.lost_rate)}/s`);
      if (row.ack_p50_ms !== null) parts.push(`ack p50 ${number(row.ack_p50_ms)} ms, p99 ${number(row.ack_p99_ms)} ms, max ${number(row.ack_max_ms)} ms`);
    }
    during(run.faults, s).forEach((bar) => parts.push(bar.text));
    const led = during(run.leaders, s);
    if (led.length && led.length <= 3 && page.runs.length === 1) led.forEach((bar) => parts.push(`${bar.row}: ${bar.text}`));
    const lag = (run.data[run.key + "lag"] || []).findLast((one) => one.at <= s);
    if (lag && page.runs.length === 1) parts.push(`lag of ${lag.group} ${number(lag.lag)}`);
    return (run.label ? `${run.label}: ` : "") + (parts.join(" · ") || "nothing");
  };
  const say = (s) => [`${s.toFixed(2)} s`, ...page.runs.map((run) => reading(run, s))].join(page.runs.length > 1 ? "\n" : " · ");
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
  // Events from replay and live pages: a moment to show, and newer steps of a live run.
  area.addEventListener("moment", (event) => point(event.detail));
  let newest = null, busy = false;
  area.addEventListener("newer", async (event) => {
    newest = event.detail;
    if (busy) return;
    for (busy = true; newest; ) {
      const { steps, width, faults, end, moments } = newest, [run] = page.runs, follow = shown[1] - shown[0] >= length;
      newest = null;
      Object.assign(run, { steps: { overview: steps, fine: steps }, faults, fine: { width }, overview: { width } });
      whole[1] = end; length = end - whole[0];
      for (const { view } of views) view.data(run.key + "steps", steps.map((row) => ({ ...row }))).data(run.key + "bands", faults.map((bar) => ({ ...bar })));
      if (moments) views.forEach(({ view }) => view.data(run.key + "moments", moments));
      await zoom(...(follow ? whole : shown));
    }
    busy = false;
  });
  const tools = area.parentElement.querySelector(".tools");
  tools.hidden = false;
  tools.addEventListener("click", (event) => {
    const wanted = event.target.dataset.zoom;
    if (wanted === "all") zoom(...whole);
    else if (wanted === "in") scaled(0.5);
    else if (wanted === "out") scaled(2);
    else if (wanted) zoom(...wanted.split(",").map(Number));
  });
  // Paper is narrower than most windows: charts are redrawn at its width, so that text keeps its size.
  window.addEventListener("beforeprint", () => { views.forEach((one) => one.view.signal("wide", PAPER_PX)); views.concat(others).forEach((one) => one.view.width(PAPER_PX).run()); });
  window.addEventListener("afterprint", () => { views.concat(others).forEach((one) => one.view.width(one.place.clientWidth).run()); zoom(...shown); });
  let wait = 0;
  window.addEventListener("resize", () => { clearTimeout(wait); wait = setTimeout(() => zoom(...shown), 150); });
  await zoom(...whole);
  document.body.dataset.ready = "yes";
})().catch((error) => { document.body.dataset.ready = "no"; console.error(error); });
