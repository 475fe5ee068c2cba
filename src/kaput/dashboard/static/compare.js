// The courses of two runs over each other, aligned at their first faults.
import { draw, legend } from "./chart.js";

const places = [...document.querySelectorAll("#courses span")];
const said = document.getElementById("said");
const courses = await Promise.all(places.map(async (place) => {
  const answer = await fetch(`${place.dataset.run}/course.json`);
  return answer.ok ? answer.json() : { said: `${place.dataset.name} could not be read (status ${answer.status})` };
}));
const missing = courses.filter((course) => course.said);
if (missing.length) {
  said.textContent = missing.map((course) => course.said).join(" ");
  said.hidden = false;
} else {
  const from = Math.min(...courses.map((course) => -course.first_fault));
  const to = Math.max(...courses.map((course) => course.end - course.first_fault));
  const bands = courses.flatMap((course) => course.bars.faults.filter((bar) => bar.kind === "fault").map((bar) => ({ begin: bar.begin - course.first_fault, end: bar.end - course.first_fault, kind: "band" })));
  // As wide steps in both, or the finer one would look the more restless.
  const width = Math.max(1, ...courses.map((course) => course.width));
  const wide = (course) => {
    const found = new Map();
    for (const row of course.rows) {
      const step = Math.floor((row[0] - course.first_fault) / width);
      const one = found.get(step) ?? { acked: 0, p99: null };
      one.acked += row[2];
      if (row[7] !== null) one.p99 = Math.max(one.p99 ?? 0, row[7]);
      found.set(step, one);
    }
    return [...found].sort((a, b) => a[0] - b[0]).map(([step, one]) => ({ s: (step + 0.5) * width, ...one }));
  };
  const kinds = ["p50", "p99"], names = places.map((place) => place.dataset.name);
  const wides = courses.map(wide);
  const paint = () => {
    for (const [id, of, log] of [["acked", (row) => row.acked / width, false], ["p99", (row) => row.p99, true]]) {
      const series = wides.map((rows, at) => ({ kind: kinds[at], dashed: at === 1, points: rows.map((row) => [row.s, of(row)]) }));
      draw(document.getElementById(id), { from, to, bands, log, cursor: 0, series });
      legend(document.getElementById(`${id}-legend`), names.map((name, at) => [name, kinds[at], at === 1]));
    }
  };
  paint();
  addEventListener("resize", paint);
  document.body.dataset.ready = "yes";
}
