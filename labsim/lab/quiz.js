// Draws a quiz: one question at a time, and a reason for every choice. No imports, no network, no kernel.
// `data` holds the questions, `chosen` the options taken so far per question, in order, and `at` which one is shown.

let count = 0;

function html(parent, name, className, text = null) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== null) made.textContent = text;
  parent.appendChild(made);
  return made;
}

// Text with `code` and *stress*.
function words(parent, text) {
  parent.replaceChildren();
  for (const part of text.split(/(`[^`]+`|\*[^*\s][^*]*\*)/)) {
    const name = { "`": "code", "*": "em" }[part.length > 2 ? part[0] : ""] || "span";
    if (part) html(parent, name, "", name === "span" ? part : part.slice(1, -1));
  }
}

const rights = (question) => question.options.flatMap((option, i) => (option.right ? [i] : []));

// As Question.choices_needed: how many choices it took, or null.
function needed(question, chosen) {
  const right = rights(question);
  for (let n = right.length; n <= chosen.length; n++) {
    if (right.every((i) => chosen.slice(0, n).includes(i))) return n;
  }
  return null;
}

function render({ model, el }) {
  const id = `labsim-quiz-${Date.now().toString(36)}-${count++}`;
  const root = html(el, "div", "labsim-quiz");
  root.setAttribute("role", "group");
  // JupyterLab's command mode would take the keys.
  root.setAttribute("data-lm-suppress-shortcuts", "true");
  html(root, "div", "labsim-title", model.get("title")).id = `${id}-title`;
  root.setAttribute("aria-labelledby", `${id}-title`);

  const place = html(root, "div", "labsim-quiz-place");
  const asked = html(root, "div", "labsim-quiz-asked");
  asked.id = `${id}-asked`;
  const code = html(root, "pre", "labsim-quiz-code");
  code.tabIndex = 0; // a wide log scrolls, also from the keyboard
  code.setAttribute("aria-label", "what the question is about");
  const hint = html(root, "div", "labsim-quiz-hint");
  const list = html(root, "div", "labsim-quiz-options");
  list.setAttribute("role", "group");
  list.setAttribute("aria-labelledby", asked.id);
  const said = html(root, "div", "labsim-quiz-said");
  said.setAttribute("role", "status");
  said.setAttribute("aria-live", "polite");

  const controls = html(root, "div", "labsim-quiz-buttons");
  const score = html(root, "div", "labsim-quiz-score");
  const note = html(root, "div", "labsim-quiz-note");

  const data = () => model.get("data");
  const at = () => model.get("at");
  let shown = null; // the question whose options are in the page
  let looked = null; // the option whose reason is in the page
  let options = [];

  function go(to) {
    const inside = to >= 0 && to < data().length;
    if (inside && to !== at()) {
      model.set("at", to);
      model.save_changes();
    }
    return inside;
  }

  function choose(i) {
    looked = i;
    const taken = model.get("chosen").map((one) => [...one]);
    if (taken[at()].includes(i)) {
      update(); // read its reason again
      return;
    }
    taken[at()].push(i);
    model.set("chosen", taken);
    model.save_changes();
  }

  const buttons = [
    ["◀ back", () => go(at() - 1)],
    ["next ▶", () => go(at() + 1)],
    ["start over", () => {
      model.set("chosen", data().map(() => []));
      model.set("at", 0);
      model.save_changes();
    }],
  ].map(([name, act]) => {
    const button = html(controls, "button", "", name);
    button.type = "button";
    button.addEventListener("click", act);
    return button;
  });

  root.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target === code) return;
    const number = Number(event.key) - 1;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (Number.isInteger(number) && options[number]) {
      options[number].button.focus();
      choose(number);
    } else if (step === undefined || !go(at() + step)) {
      return; // the slides' own keys go on working at the ends
    }
    event.preventDefault();
    event.stopPropagation();
  });

  function build(question) {
    const focused = list.contains(document.activeElement);
    words(asked, question.text);
    code.textContent = question.code;
    code.hidden = !question.code;
    const wanted = rights(question).length;
    hint.textContent = `${wanted} of these are right: find them all.`;
    hint.hidden = wanted < 2;
    list.replaceChildren();
    options = question.options.map((option, i) => {
      const button = html(list, "button", "labsim-quiz-option");
      button.type = "button";
      const mark = html(button, "span", "labsim-quiz-mark", String(i + 1));
      mark.setAttribute("aria-hidden", "true");
      words(html(button, "span", "labsim-quiz-text"), option.text);
      const spoken = html(button, "span", "labsim-quiz-spoken");
      button.addEventListener("click", () => choose(i));
      return { button, mark, spoken };
    });
    if (focused) options[0].button.focus();
  }

  function update() {
    const question = data()[at()];
    const chosen = model.get("chosen")[at()];
    if (shown !== at()) {
      shown = at();
      looked = null;
      build(question);
    }
    if (looked === null || !chosen.includes(looked)) looked = chosen.length ? chosen[chosen.length - 1] : null;
    place.textContent = `${at() + 1} of ${data().length}: ${question.title}`;
    options.forEach(({ button, mark, spoken }, i) => {
      const taken = chosen.includes(i);
      const right = question.options[i].right;
      button.dataset.state = taken ? (right ? "right" : "wrong") : "open";
      button.classList.toggle("labsim-quiz-looked", i === looked);
      button.setAttribute("aria-pressed", String(taken));
      mark.textContent = taken ? (right ? "✓" : "✗") : String(i + 1);
      spoken.textContent = taken ? (right ? "(right)" : "(not right)") : "";
    });
    const done = needed(question, chosen);
    said.replaceChildren();
    said.dataset.state = looked === null ? "open" : question.options[looked].right ? "right" : "wrong";
    if (looked !== null) {
      const option = question.options[looked];
      const left = rights(question).filter((i) => !chosen.includes(i)).length;
      const more = option.right && left ? ` One of ${rights(question).length}: look for the other${left > 1 ? "s" : ""}.` : "";
      html(said, "strong", "", option.right ? `✓ Right.${more} ` : "✗ Not this one. ");
      words(html(said, "span", ""), option.why);
    } else {
      html(said, "span", "labsim-quiz-soft", `Choose; every choice says why. Keys: 1 to ${options.length}, left and right.`);
    }
    buttons[0].setAttribute("aria-disabled", String(at() === 0));
    buttons[1].setAttribute("aria-disabled", String(at() === data().length - 1));
    const counts = data().map((one, i) => needed(one, model.get("chosen")[i]));
    const solved = counts.filter((n) => n !== null).length;
    const first = data().filter((one, i) => counts[i] === rights(one).length).length;
    score.textContent = `${solved} of ${data().length} answered, ${first} without a wrong choice`;
    root.dataset.done = String(done !== null);
    note.textContent = model.get("note") || "";
    note.hidden = !note.textContent;
  }

  update();
  const names = ["change:at", "change:chosen", "change:note"];
  names.forEach((name) => model.on(name, update));
  return () => names.forEach((name) => model.off(name, update));
}

export default { render };
