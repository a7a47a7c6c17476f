// Draws an explorer: sliders over a grid of frames that was computed beforehand. No imports, no network, no kernel.
// `spec` holds labels and scales, `grid` the frames (unpacked below as in explorer.py), `index` the slider positions.

const SVG = "http://www.w3.org/2000/svg"; // a name, never fetched
let count = 0;

function node(parent, name, attributes = {}, text = null) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  parent.appendChild(made);
  return made;
}

function html(parent, name, className, text = null) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== null) made.textContent = text;
  parent.appendChild(made);
  return made;
}

const finite = (value) => typeof value === "number" && Number.isFinite(value);
const show = (value) => String(Number(value.toPrecision(4)));
// Ticks of one axis in one notation: powers where plain digits would be long at either end.
const power = (value) => Number(value.toPrecision(4)).toExponential().replace("+", "");
const tickTexts = (ticks) => {
  const long = ticks.some((tick) => tick !== 0 && (Math.abs(tick) < 1e-4 || Math.abs(tick) >= 1e7));
  return ticks.map((tick) => (long && tick !== 0 ? power(tick) : show(tick)));
};

// ---- scales -------------------------------------------------------------------------------------------------------

function linearTicks(low, high, wanted) {
  const raw = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  const ticks = [];
  for (let i = first; i * step <= high + step * 1e-9; i++) ticks.push(Number((i * step).toPrecision(12)));
  return { ticks, step };
}

function logTicks(low, high, base, wanted) {
  const log = (v) => Math.log(v) / Math.log(base);
  const from = Math.ceil(log(low) - 1e-9);
  const to = Math.floor(log(high) + 1e-9);
  const stride = Math.max(1, Math.ceil((to - from + 1) / wanted));
  const ticks = [];
  for (let i = from; i <= to; i += stride) ticks.push(base ** i);
  if (base === 10 && to - from < 2) {
    for (let i = from - 1; i <= to; i++) {
      for (const m of [2, 5]) {
        const tick = m * 10 ** i;
        if (tick >= low && tick <= high) ticks.push(tick);
      }
    }
  }
  return ticks.sort((a, b) => a - b);
}

// Returns {at(value) -> pixel or null, ticks, step}. `from` and `to` are pixels.
function numericScale(kind, low, high, from, to, wanted, widen) {
  if (kind === "linear") {
    let { ticks, step } = linearTicks(low, high, wanted);
    if (widen) {
      low = Math.floor(low / step + 1e-9) * step;
      high = Math.ceil(high / step - 1e-9) * step;
      ticks = linearTicks(low, high, (high - low) / step).ticks;
    }
    const at = (v) => (finite(v) ? from + ((v - low) / (high - low)) * (to - from) : null);
    return { at, ticks, low, high };
  }
  const base = kind === "log2" ? 2 : 10;
  if (widen) [low, high] = [low / 1.15, high * 1.15];
  const span = Math.log(high / low);
  const at = (v) => (finite(v) && v > 0 ? from + (Math.log(v / low) / span) * (to - from) : null);
  return { at, ticks: logTicks(low, high, base, wanted), low, high };
}

function categoryScale(names, from, to) {
  const width = (to - from) / names.length;
  const at = (name) => {
    const i = names.indexOf(name);
    return i < 0 ? null : from + (i + 0.5) * width;
  };
  return { at, ticks: names, band: width };
}

// ---- shapes -------------------------------------------------------------------------------------------------------

function marker(parent, shape, x, y, colour, size = 4.5) {
  const s = size;
  const polygons = {
    s: [[-s, -s], [s, -s], [s, s], [-s, s]],
    "^": [[0, -s * 1.2], [s * 1.15, s], [-s * 1.15, s]],
    v: [[0, s * 1.2], [s * 1.15, -s], [-s * 1.15, -s]],
    D: [[0, -s * 1.3], [s * 1.3, 0], [0, s * 1.3], [-s * 1.3, 0]],
  };
  if (polygons[shape]) {
    const points = polygons[shape].map(([dx, dy]) => `${x + dx},${y + dy}`).join(" ");
    return node(parent, "polygon", { points, fill: colour, class: "labsim-marker" });
  }
  if (shape === "P" || shape === "X") {
    const d = shape === "P" ? `M${x - s},${y}H${x + s}M${x},${y - s}V${y + s}`
      : `M${x - s},${y - s}L${x + s},${y + s}M${x - s},${y + s}L${x + s},${y - s}`;
    return node(parent, "path", { d, stroke: colour, "stroke-width": 3, class: "labsim-marker" });
  }
  return node(parent, "circle", { cx: x, cy: y, r: s, fill: colour, class: "labsim-marker" });
}

function path(points, step = false) {
  let d = "";
  let pen = false;
  points.forEach(([x, y], i) => {
    if (x === null || y === null) {
      pen = false;
      return;
    }
    const py = y.toFixed(1);
    if (step) {
      // A stair stands around its x, halfway to each neighbour; at the ends it is as wide on both sides.
      const [before, after] = [points[i - 1]?.[0] ?? null, points[i + 1]?.[0] ?? null];
      const left = before !== null ? (x - before) / 2 : after !== null ? (after - x) / 2 : 0;
      const right = after !== null ? (after - x) / 2 : left;
      d += `${pen ? "L" : "M"}${(x - left).toFixed(1)},${py}H${(x + right).toFixed(1)}`;
    } else {
      d += `${pen ? "L" : "M"}${x.toFixed(1)},${py}`;
    }
    pen = true;
  });
  return d;
}

const isPoints = (series) => series.kind === "points" || series.kind === "dots";
// Points mark a choice or a measurement on a line that has markers of its own, so they are larger than those.
const sizeOf = (series) => ({ dots: 2, points: 6.5 })[series.kind] ?? 4.5;
const isBar = (series) => series.kind === "bar" || series.kind === "stack";

// How high the stacked bars below series n reach at each of its x.
function heightsBelow(series, n) {
  const below = (name) => series.slice(0, n).filter((s) => s.kind === "stack")
    .reduce((sum, s) => sum + (s.y[s.x.indexOf(name)] || 0), 0);
  return series[n].x.map(below);
}

function drawSeries(parent, series, look, x, y, place) {
  const centre = (i) => x.at(series.x[i]);
  const rows = series.x.map((_, i) => i);
  const group = node(parent, "g", { class: "labsim-series", "data-name": series.name });
  const tip = (made, i) => node(made, "title", {}, `${series.name}: ${series.x[i]}, ${series.y[i]}`);

  if (isBar(series)) {
    const width = (place.slot * (place.under ? 0.55 : 0.8)) / place.groups;
    const offset = (place.group - (place.groups - 1) / 2) * width;
    for (const i of rows) {
      if (centre(i) === null || y.at(series.y[i]) === null) continue;
      const below = place.under ? place.under[i] : 0;
      const zero = y.at(Math.max(y.low, Math.min(below, y.high))) ?? y.at(y.low);
      const top = y.at(below + series.y[i]);
      const bar = node(group, "path", {
        d: `M${(centre(i) + offset - width * 0.46).toFixed(1)},${zero.toFixed(1)}V${top.toFixed(1)}` +
          `h${(width * 0.92).toFixed(1)}V${zero.toFixed(1)}Z`,
        fill: look.colour, class: "labsim-bar",
      });
      tip(bar, i);
      if (place.hatch) {
        node(group, "path", { d: bar.getAttribute("d"), fill: `url(#${place.hatch})`, "pointer-events": "none" });
      }
      errorBar(group, centre(i) + offset, series, i, y);
    }
    return;
  }
  const middle = rows.map((i) => [centre(i), y.at(series.y[i])]);
  if (isPoints(series)) {
    rows.forEach((i) => errorBar(group, centre(i), series, i, y));
  } else {
    if (series.lo) {
      const known = rows.filter((i) => y.at(series.lo[i]) !== null && y.at(series.hi[i]) !== null);
      const there = known.map((i) => `${centre(i).toFixed(1)},${y.at(series.hi[i]).toFixed(1)}`);
      const back = known.reverse().map((i) => `${centre(i).toFixed(1)},${y.at(series.lo[i]).toFixed(1)}`);
      if (there.length > 1) {
        const d = `M${there.join("L")}L${back.join("L")}Z`;
        node(group, "path", { d, fill: look.colour, "fill-opacity": 0.2, class: "labsim-band" });
      }
    }
    node(group, "path", {
      d: path(middle, series.kind === "step"), fill: "none", stroke: look.colour, "stroke-width": 2.4,
      "stroke-dasharray": look.dash.join(" "), "stroke-linejoin": "round", class: "labsim-line",
    });
  }
  const every = isPoints(series) ? 1 : Math.max(1, Math.ceil(rows.length / 14));
  for (const i of rows) {
    if (i % every || middle[i][0] === null || middle[i][1] === null) continue;
    tip(marker(group, look.marker, middle[i][0], middle[i][1], look.colour, sizeOf(series)), i);
  }
}

// Bars of the second and later series are hatched as well as coloured.
function hatch(parent, id, index) {
  if (index % 4 === 0) return;
  const pattern = node(parent, "pattern", { id, width: 7, height: 7, patternUnits: "userSpaceOnUse" });
  const lines = ["", "M0,7L7,0", "M0,0L7,7", "M3.5,0V7"][index % 4];
  node(pattern, "path", { d: lines, stroke: "#ffffff", "stroke-width": 1.4, "stroke-opacity": 0.85, fill: "none" });
}

function errorBar(parent, x, series, i, y) {
  if (!series.lo) return;
  const [low, high] = [y.at(series.lo[i]), y.at(series.hi[i])];
  if (x === null || low === null || high === null) return;
  const d = `M${x},${low}V${high}M${x - 5},${low}h10M${x - 5},${high}h10`;
  node(parent, "path", { d, stroke: "var(--labsim-ink)", "stroke-width": 1.5, fill: "none", class: "labsim-error" });
}

// ---- the whole figure ---------------------------------------------------------------------------------------------

function unpack(grid) {
  const column = (i) => (i === null ? null : grid.columns[i]);
  return grid.frames.map((frame) => ({
    ...frame,
    series: frame.series.map(([name, kind, x, y, lo, hi]) => ({
      name, kind, x: column(x), y: column(y), lo: column(lo), hi: column(hi),
    })),
  }));
}

function extent(values, positive) {
  const good = values.filter((v) => finite(v) && (!positive || v > 0));
  if (!good.length) return positive ? [1, 10] : [0, 1];
  const [low, high] = [Math.min(...good), Math.max(...good)];
  if (low < high) return [low, high];
  return positive ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
}

// A label stands at the end of its line where the curves leave more room.
const ENOUGH = 40; // pixels
const wide = (label) => label.length * 8.5; // about, in pixels

// How far, up or down, the height `at` is from the nearest curve, band or bar over a span of the x axis.
function room(series, x, y, [from, to], at) {
  let least = Infinity;
  for (const [n, one] of series.entries()) {
    if (isBar(one)) {
      const below = one.kind === "stack" ? heightsBelow(series, n) : one.x.map(() => 0);
      const there = one.x.map((v, i) => [x.at(v), y.at(below[i] + one.y[i])])
        .filter(([px, py]) => px !== null && py !== null && px + x.band / 2 > from && px - x.band / 2 < to);
      least = Math.min(least, ...there.map(([, py]) => Math.max(0, py - at)));
      continue;
    }
    for (const values of [one.y, one.lo, one.hi].filter(Boolean)) {
      const points = one.x.map((v, i) => [x.at(v), y.at(values[i])]).filter(([px, py]) => px !== null && py !== null);
      points.forEach(([px, py], i) => {
        const [qx, qy] = (isPoints(one) ? null : points[i + 1]) ?? [px, py];
        for (let t = 0; t <= 1; t += 1 / 32) {
          const inside = px + t * (qx - px) >= from && px + t * (qx - px) <= to;
          if (inside) least = Math.min(least, Math.abs(py + t * (qy - py) - at));
        }
      });
    }
  }
  return least;
}

function draw(svg, spec, frames, frame, width, id) {
  svg.replaceChildren();
  const height = Math.round(Math.max(280, Math.min(400, width * 0.52)));
  const box = { left: 62, right: width - 18, top: 34, bottom: height - 50 };
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  svg.setAttribute("aria-label", frame.alt);

  const all = frames.flatMap((f) => f.series);
  const bars = frame.series.filter((s) => s.kind === "bar");
  const stacks = frame.series.filter((s) => s.kind === "stack");
  const categorical = all.some((s) => s.x.some((v) => typeof v === "string"));
  let x;
  if (categorical || bars.length || stacks.length) {
    const names = [...new Set(frame.series.flatMap((s) => s.x))];
    if (!categorical) names.sort((a, b) => a - b);
    x = categoryScale(names, box.left, box.right);
  } else {
    const [low, high] = extent(all.flatMap((s) => s.x), spec.xScale !== "linear");
    x = numericScale(spec.xScale, low, high, box.left + 12, box.right - 12, Math.max(3, width / 90), false);
  }
  const values = (s) => [...s.y, ...(s.lo || []), ...(s.hi || [])];
  const tops = frame.series.flatMap((s, n) => (s.kind === "stack" ? heightsBelow(frame.series, n)
    .map((below, i) => below + (s.y[i] || 0)) : []));
  const own = frame.series.flatMap(values).concat(
    tops, spec.reference ? [spec.reference.y] : [], bars.length || stacks.length ? [0] : [],
  );
  const [low, high] = spec.yRange || extent(own, spec.yScale !== "linear");
  const [from, to] = spec.yDown ? [box.top + 6, box.bottom - 6] : [box.bottom, box.top + 6];
  const y = numericScale(spec.yScale, low, high, from, to, 6, true);

  const yTexts = tickTexts(y.ticks);
  y.ticks.forEach((tick, i) => {
    const at = y.at(tick);
    node(svg, "line", { x1: box.left, x2: box.right, y1: at, y2: at, class: "labsim-grid" });
    node(svg, "text", { x: box.left - 9, y: at + 4.5, "text-anchor": "end", class: "labsim-tick" }, yTexts[i]);
  });
  const xTexts = x.ticks.some((tick) => typeof tick === "string") ? x.ticks.map(String) : tickTexts(x.ticks);
  x.ticks.forEach((tick, i) => {
    const at = x.at(tick);
    node(svg, "line", { x1: at, x2: at, y1: box.bottom, y2: box.bottom + 5, class: "labsim-axis" });
    node(svg, "text", { x: at, y: box.bottom + 20, "text-anchor": "middle", class: "labsim-tick" }, xTexts[i]);
  });
  node(svg, "line", { x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom, class: "labsim-axis" });
  node(svg, "text", { x: 6, y: 16, class: "labsim-label" }, spec.yLabel);
  const long = spec.xLabel.length * 7.2 > box.right - box.left; // on a phone: centred on the whole width, and smaller
  const xLabel = node(svg, "text", {
    x: long ? width / 2 : (box.left + box.right) / 2, y: height - 8, "text-anchor": "middle", class: "labsim-label",
  }, spec.xLabel);
  if (long) xLabel.style.fontSize = `${Math.max(10, Math.min(14, (14 * width) / (spec.xLabel.length * 7.2)))}px`;

  const defs = node(svg, "defs");
  const clip = node(defs, "clipPath", { id: `${id}-clip` });
  node(clip, "rect", {
    x: box.left - 6, y: box.top - 6, width: box.right - box.left + 12, height: box.bottom - box.top + 12,
  });
  const plot = node(svg, "g", { "clip-path": `url(#${id}-clip)` });
  if (spec.reference) {
    const at = y.at(spec.reference.y);
    node(plot, "line", { x1: box.left, x2: box.right, y1: at, y2: at, class: "labsim-reference" });
  }
  if (frame.mark && x.at(frame.mark[0]) !== null) {
    const at = x.at(frame.mark[0]);
    node(plot, "line", { x1: at, x2: at, y1: box.top, y2: box.bottom, class: "labsim-reference" });
  }
  let group = 0;
  frame.series.forEach((series, i) => {
    const place = { slot: x.band || 0, groups: bars.length || 1, group: series.kind === "bar" ? group++ : 0 };
    if (series.kind === "stack") [place.under, place.groups] = [heightsBelow(frame.series, i), 1];
    if (isBar(series) && i % 4) place.hatch = `${id}-hatch${i}`;
    if (place.hatch) hatch(defs, place.hatch, i);
    drawSeries(plot, series, spec.looks[i % spec.looks.length], x, y, place);
  });
  if (spec.reference) {
    const at = Math.max(box.top + 10, y.at(spec.reference.y) - 6);
    const [start, end] = [[box.left, box.left + wide(spec.reference.label)],
      [box.right - wide(spec.reference.label), box.right]].map((span) => room(frame.series, x, y, span, at - 5));
    const right = end >= start;
    node(svg, "text", {
      x: right ? box.right - 4 : box.left + 4, y: at, "text-anchor": right ? "end" : "start", class: "labsim-note",
    }, spec.reference.label);
  }
  if (frame.mark && x.at(frame.mark[0]) !== null) {
    const at = x.at(frame.mark[0]);
    const right = at > (box.left + box.right) / 2;
    const beside = right ? [at - wide(frame.mark[1]), at] : [at, at + wide(frame.mark[1])];
    const ends = [box.bottom - 8, box.top + 24]; // below the topmost grid line
    const [low, high] = ends.map((end) => room(frame.series, x, y, beside, end - 5));
    node(svg, "text", {
      x: at + (right ? -6 : 6), y: ends[low >= Math.min(high, ENOUGH) ? 0 : 1], "text-anchor": right ? "end" : "start",
      class: "labsim-note",
    }, frame.mark[1]);
  }
}

function drawLegend(parent, spec, frame, id) {
  parent.replaceChildren();
  parent.hidden = frame.series.length < 2;
  frame.series.forEach((series, i) => {
    const look = spec.looks[i % spec.looks.length];
    const item = html(parent, "span", "labsim-legend-item");
    const swatch = node(item, "svg", { width: 44, height: 14, "aria-hidden": "true" });
    if (isBar(series)) {
      const box = { x: 12, y: 0, width: 20, height: 14 };
      node(swatch, "rect", { ...box, fill: look.colour });
      if (i % 4) node(swatch, "rect", { ...box, fill: `url(#${id}-hatch${i})` });
    } else {
      if (!isPoints(series)) {
        node(swatch, "line", {
          x1: 1, x2: 43, y1: 7, y2: 7, stroke: look.colour, "stroke-width": 2.4, "stroke-dasharray": look.dash.join(" "),
        });
      }
      marker(swatch, look.marker, 22, 7, look.colour, sizeOf(series));
    }
    html(item, "span", "", series.name);
  });
}

function render({ model, el }) {
  const id = `labsim-${Date.now().toString(36)}-${count++}`;
  const root = html(el, "div", "labsim-explorer");
  root.setAttribute("role", "group");
  const title = html(root, "div", "labsim-title");
  const controls = html(root, "div", "labsim-controls");
  const legend = html(root, "div", "labsim-legend");
  const holder = html(root, "div", "labsim-figure");
  const svg = node(holder, "svg", { role: "img", class: "labsim-chart" });
  const text = html(root, "div", "labsim-readout");
  text.setAttribute("role", "status");
  text.setAttribute("aria-live", "polite");

  let frames = unpack(model.get("grid"));
  let inputs = [];

  function buildControls() {
    const spec = model.get("spec");
    root.setAttribute("aria-label", spec.title);
    title.textContent = spec.title;
    controls.replaceChildren();
    inputs = spec.sliders.map((slider, i) => {
      const name = `${id}-${slider.name}`;
      const label = html(controls, "label", "", slider.label);
      label.htmlFor = name;
      const input = html(controls, "input", "");
      Object.assign(input, { id: name, type: "range", min: 0, max: slider.texts.length - 1, step: 1 });
      input.dataset.slider = slider.name;
      // JupyterLab's command mode would take the arrow keys from a focused slider (collapse heading, next cell).
      input.setAttribute("data-lm-suppress-shortcuts", "true");
      const value = html(controls, "span", "labsim-value");
      const output = html(value, "output", "");
      if (slider.coarse) html(value, "span", "labsim-coarse", slider.coarse);
      output.htmlFor.add(name);
      input.addEventListener("input", () => {
        const index = [...model.get("index")];
        index[i] = Number(input.value);
        model.set("index", index);
        model.save_changes();
      });
      return { input, output, slider };
    });
  }

  function update() {
    const spec = model.get("spec");
    const index = model.get("index");
    const position = spec.sliders.reduce((sum, slider, i) => sum * slider.texts.length + index[i], 0);
    const frame = frames[position];
    inputs.forEach(({ input, output, slider }, i) => {
      const shown = [slider.texts[index[i]], slider.unit].filter(Boolean).join(" ");
      if (Number(input.value) !== index[i]) input.value = index[i];
      input.setAttribute("aria-valuetext", shown);
      output.textContent = shown;
    });
    const width = Math.max(300, Math.min(1320, Math.round(holder.clientWidth || 720)));
    draw(svg, spec, frames, frame, width, id);
    drawLegend(legend, spec, frame, id);
    text.textContent = frame.text;
  }

  function restart() {
    frames = unpack(model.get("grid"));
    // A page that cannot scroll reserves room for it.
    text.dataset.longest = frames.reduce((longest, { text: one }) => (one.length > longest.length ? one : longest), "");
    buildControls();
    update();
  }

  restart();
  model.on("change:index", update);
  model.on("change:grid", restart);
  model.on("change:spec", restart);
  let drawn = 0;
  const observer = new ResizeObserver(() => {
    if (holder.clientWidth && Math.abs(holder.clientWidth - drawn) > 2) {
      drawn = holder.clientWidth;
      update();
    }
  });
  observer.observe(holder);
  return () => {
    observer.disconnect();
    model.off("change:index", update);
    model.off("change:grid", restart);
    model.off("change:spec", restart);
  };
}

export default { render };
