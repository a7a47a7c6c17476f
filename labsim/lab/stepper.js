// Draws a stepper: a finished decode, one propose, verify, accept at a time. No imports, no network, no kernel.
// `data` holds the runs, `run` which one is shown, `position` how far: 0 is the start, then three positions per step.

const MARKS = {
  first: ["", "from the prompt's forward"],
  drafted: ["?", "drafted"],
  accepted: ["✓", "accepted"],
  rejected: ["✗", "rejected"],
  unused: ["–", "behind a rejected one, not judged"],
  corrected: ["↻", "corrected: the target's own"],
  bonus: ["+", "bonus: the target's own"],
};
let count = 0;

function html(parent, name, className, text = null) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== null) made.textContent = text;
  parent.appendChild(made);
  return made;
}

// A token that is all white space would be invisible.
const visible = (text) => text.replaceAll("\n", "↵").replace(/^ +$/, (blank) => "␣".repeat(blank.length)) || "∅";
const percent = (value) => (value >= 0.9995 ? "1" : value < 0.0005 ? "0" : value.toFixed(3).replace(/^0/, ""));

function chip(parent, text, mark) {
  const made = html(parent, "span", `labsim-token labsim-${mark}`);
  if (MARKS[mark][0]) html(made, "span", "labsim-mark", MARKS[mark][0]).setAttribute("aria-hidden", "true");
  html(made, "span", "labsim-word", visible(text));
  made.title = MARKS[mark][1];
  made.dataset.mark = mark;
  return made;
}

function bar(parent, name, value, note) {
  const row = html(parent, "div", "labsim-bar-row");
  html(row, "span", "labsim-bar-name", name);
  const track = html(row, "span", "labsim-track");
  const fill = html(track, "span", `labsim-fill labsim-fill-${name}`);
  fill.style.width = `${Math.max(0, Math.min(1, value)) * 100}%`;
  html(row, "span", "labsim-bar-value", percent(value));
  row.title = `${note}: ${value}`;
}

// Tokens of the answer that earlier steps have emitted, with how they came about.
function committed(run, steps) {
  const tokens = [[run.first, "first"]];
  for (const step of run.steps.slice(0, steps)) {
    for (const token of step.draft) if (token.fate === "accepted") tokens.push([token.text, "accepted"]);
    if (step.own !== null) tokens.push([step.own, step.kind]);
  }
  return tokens;
}

function drawWork(parent, run, step, phase) {
  parent.replaceChildren();
  if (!step) return;
  step.draft.forEach((token) => {
    const card = html(parent, "div", "labsim-card");
    chip(card, token.text, phase === 2 ? token.fate : "drafted");
    bar(card, "q", token.q, "probability in the draft");
    if (phase > 0) bar(card, "p", token.p, "probability in the target");
    if (phase > 0 && run.greedy) html(card, "div", "labsim-choice", `target: ${visible(token.choice)}`);
    if (phase > 0 && !run.greedy) {
      html(card, "div", "labsim-choice", `keep: ${percent(Math.min(1, token.p / token.q))}`);
    }
  });
  if (!step.draft.length && phase < 2) {
    html(html(parent, "div", "labsim-card"), "div", "labsim-choice", "no guess");
  }
  if (phase === 2 && step.own !== null) {
    const card = html(parent, "div", "labsim-card labsim-own");
    chip(card, step.own, step.kind);
    bar(card, "p", step.own_p, "probability in the target");
    html(card, "div", "labsim-choice", "the target's own");
  }
}

function drawLegend(parent) {
  for (const [mark, [, meaning]] of Object.entries(MARKS)) {
    if (mark === "first") continue;
    const item = html(parent, "span", "labsim-legend-item");
    chip(item, " ", mark).querySelector(".labsim-word").textContent = "abc";
    html(item, "span", "", meaning);
  }
}

function render({ model, el }) {
  const id = `labsim-stepper-${Date.now().toString(36)}-${count++}`;
  const root = html(el, "div", "labsim-stepper");
  root.setAttribute("role", "group");
  // JupyterLab's command mode would take the arrow keys.
  root.setAttribute("data-lm-suppress-shortcuts", "true");
  html(root, "div", "labsim-title", model.get("title")).id = `${id}-title`;
  root.setAttribute("aria-labelledby", `${id}-title`);

  const choose = html(root, "div", "labsim-choose");
  const label = html(choose, "label", "", "run");
  const select = html(choose, "select");
  select.id = `${id}-run`;
  label.htmlFor = select.id;
  model.get("data").forEach((run, i) => {
    const option = html(select, "option", "", run.name);
    option.value = i;
  });
  choose.hidden = model.get("data").length < 2;
  const prompt = html(root, "div", "labsim-prompt");

  const answer = html(root, "div", "labsim-answer");
  answer.setAttribute("role", "img");
  const phases = html(root, "div", "labsim-phases");
  const names = ["propose", "verify", "accept"].map((name) => html(phases, "span", "labsim-phase", name));
  const work = html(root, "div", "labsim-work");
  const text = html(root, "div", "labsim-readout");
  text.setAttribute("role", "status");
  text.setAttribute("aria-live", "polite");

  const controls = html(root, "div", "labsim-buttons");
  const move = (to) => {
    const last = model.get("data")[model.get("run")].steps.length * 3;
    model.set("position", Math.max(0, Math.min(last, to)));
    model.save_changes();
  };
  const at = () => model.get("position");
  const buttons = [
    ["|◀", "first position", () => 0],
    ["◀", "step back", () => at() - 1],
    ["▶", "step forward", () => at() + 1],
    ["▶|", "last position", () => Infinity],
  ].map(([sign, name, target]) => {
    const button = html(controls, "button", "", sign);
    button.type = "button";
    button.title = name;
    button.setAttribute("aria-label", name);
    button.addEventListener("click", () => move(target()));
    return button;
  });
  const slider = html(controls, "input");
  slider.type = "range";
  slider.min = 0;
  slider.step = 1;
  slider.setAttribute("aria-label", "position in the answer");
  slider.addEventListener("input", () => move(Number(slider.value)));
  const counter = html(root, "div", "labsim-counter");
  const legend = html(root, "div", "labsim-legend");
  drawLegend(legend);

  root.addEventListener("keydown", (event) => {
    if (event.target === slider || event.target === select || event.ctrlKey || event.metaKey || event.altKey) return;
    const to = { ArrowLeft: at() - 1, ArrowRight: at() + 1, Home: 0, End: Infinity }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    move(to);
  });
  select.addEventListener("change", () => {
    model.set("run", Number(select.value));
    model.set("position", 0);
    model.save_changes();
  });

  function update() {
    const run = model.get("data")[model.get("run")];
    const last = run.steps.length * 3;
    const position = Math.min(at(), last);
    const number = Math.ceil(position / 3); // steps begun
    const phase = (position + 2) % 3;
    const done = position === 0 ? 0 : number - 1;
    select.value = model.get("run");
    prompt.textContent = run.prompt;
    answer.replaceChildren();
    const tokens = committed(run, done);
    tokens.forEach(([word, mark]) => chip(answer, word, mark));
    const shown = tokens.map(([word]) => word).join("");
    answer.setAttribute("aria-label", `The answer so far: ${shown}`);
    names.forEach((name, i) => name.classList.toggle("labsim-now", position > 0 && i === phase));
    drawWork(work, run, position ? run.steps[number - 1] : null, phase);
    text.textContent = run.texts[position];
    slider.max = last;
    slider.value = position;
    slider.setAttribute("aria-valuetext", run.texts[position]);
    // The verify phase is the forward; the accept phase adds its tokens.
    const forwards = done + (position && phase >= 1 ? 1 : 0);
    const emitted = committed(run, done + (position && phase === 2 ? 1 : 0)).length;
    const each = forwards && phase === 2 ? `, ${((emitted - 1) / forwards).toFixed(2)} per forward` : "";
    counter.textContent = `${forwards} target forward${forwards === 1 ? "" : "s"} after the prompt's, ` +
      `${emitted} token${emitted === 1 ? "" : "s"}${each}`;
    [position > 0, position > 0, position < last, position < last].forEach((possible, i) => {
      // A disabled button would lose the focus, and the arrow keys with it.
      buttons[i].setAttribute("aria-disabled", String(!possible));
    });
    answer.scrollTop = answer.scrollHeight;
  }

  update();
  model.on("change:position", update);
  model.on("change:run", update);
  return () => {
    model.off("change:position", update);
    model.off("change:run", update);
  };
}

export default { render };
