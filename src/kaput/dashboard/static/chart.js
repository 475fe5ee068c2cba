// A line chart in SVG: a few series over seconds, with bands for faults. Text goes in as text, never as markup.
const SVG = "http://www.w3.org/2000/svg";
const LEFT = 54, BOTTOM = 18, TOP = 6, RIGHT = 8;

const element = (name, attributes, text) => {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
};

export const short = (value) => value >= 1e6 ? `${+(value / 1e6).toPrecision(3)} M` : value >= 1e4 ? `${+(value / 1e3).toPrecision(3)} k` : String(+value.toPrecision(3));

const steps = (most, count = 3) => {
  const raw = most / count || 1, size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * size).find((n) => n >= raw);
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, n) => n * step);
};
const decades = (least, most) => {
  const found = [];
  for (let n = Math.ceil(Math.log10(least)); n <= Math.log10(most); n++) found.push(10 ** n);
  return found;
};

// series: [{ kind, dashed, points: [[second, value or null], ...] }]; bands: [{ begin, end, kind }]
export function draw(place, { series, bands = [], from, to, log = false, cursor = null }) {
  const width = place.clientWidth || 600, height = place.clientHeight || 150;
  const values = series.flatMap((one) => one.points.map((point) => point[1])).filter((value) => value !== null && (!log || value > 0));
  const most = values.reduce((a, b) => Math.max(a, b), log ? 10 : 1) * 1.1;
  const least = log ? values.reduce((a, b) => Math.min(a, b), most) * 0.8 : 0;
  const span = Math.max(to - from, 1e-9), inner = height - TOP - BOTTOM;
  const x = (second) => LEFT + (second - from) / span * (width - LEFT - RIGHT);
  const share = (value) => log ? Math.log(value / least) / Math.log(most / least) : value / most;
  const y = (value) => TOP + inner * (1 - Math.min(Math.max(share(value), 0), 1));
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  for (const band of bands) {
    const begin = Math.max(band.begin, from), end = Math.min(band.end ?? to, to);
    if (end > begin) svg.append(element("rect", { class: band.kind, x: x(begin), y: TOP, width: x(end) - x(begin), height: inner }));
  }
  for (const value of log ? decades(least, most) : steps(most)) {
    svg.append(element("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }));
    svg.append(element("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, short(value)));
  }
  const apart = steps(span, width / 120), every = apart[1] ?? span;
  for (const offset of [...apart, span]) {
    const second = Math.ceil(from / every) * every + offset;
    if (second <= to && offset % every === 0) svg.append(element("text", { x: x(second), y: height - 4, "text-anchor": "middle" }, `${short(Math.abs(second)) === "0" ? 0 : (second < 0 ? "-" : "") + short(Math.abs(second))} s`));
  }
  for (const one of series) {
    let path = "", pen = false;
    for (const [second, value] of one.points) {
      if (value === null || second < from || second > to || (log && value <= 0)) { pen = false; continue; }
      path += `${pen ? "L" : "M"}${x(second).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = true;
    }
    svg.append(element("path", { class: `c-${one.kind}${one.dashed ? " dashed" : ""}`, d: path || "M0 0" }));
  }
  if (cursor !== null) svg.append(element("line", { class: "cursor", x1: x(cursor), x2: x(cursor), y1: TOP, y2: height - BOTTOM }));
  place.replaceChildren(svg);
}

export function legend(place, names) {
  place.replaceChildren(...names.map(([text, kind, dashed]) => {
    const item = document.createElement("span"), line = document.createElement("i");
    if (dashed) item.className = "dashed";
    line.className = `c-${kind}`;
    item.append(line, text);
    return item;
  }));
}
