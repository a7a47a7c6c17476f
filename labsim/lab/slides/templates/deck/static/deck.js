// Starts a deck: waits until formulas, fonts, pictures and explorers stand, draws sparse pages larger and full ones
// smaller, then hands over to reveal.js. `window.labsimDeck` is "ready" when the first slide can be seen, or what went wrong.

const HEIGHT = 720; // of a slide; its width is 1280
const LARGEST = 1.2; // where there is little on a page, the last row reads it too
const SMALLEST = 0.7; // a page that is still too high at this size is an overflow, which `labsim slides --check` finds
const STEP = 0.05;
const ENOUGH = 0.75;

function drawn(place) {
  const done = () => place.dataset.ready || place.textContent;
  return new Promise((resolve) => {
    if (done()) return resolve();
    new MutationObserver((_, observer) => {
      if (!done()) return;
      observer.disconnect();
      resolve();
    }).observe(place, { attributes: true, childList: true });
  });
}

function draw(page, size) {
  page.style.zoom = size.toFixed(2);
  page.style.setProperty("--size", size.toFixed(2));
  return page.parentElement.scrollHeight <= HEIGHT;
}

function fit(page) {
  const draws = (means) => {
    page.classList.remove("columns", "small");
    page.classList.add(...means);
    return largest(page);
  };
  page.classList.remove("columns", "small");
  // Folded code stands open where the page has room for it.
  for (const fold of page.querySelectorAll("details.code")) {
    fold.open = fold.classList.toggle("inline", fold.classList.contains("short"));
    if (fold.open && !draw(page, 1)) fold.open = fold.classList.toggle("inline", false);
  }
  // A full page may set long code in columns, and then take smaller pictures.
  let best = [0, []];
  for (const means of [[], ["columns"], ["small"], ["columns", "small"]]) {
    const size = draws(means);
    if (size > best[0]) best = [size, means];
    if (size >= ENOUGH) break;
  }
  draws(best[1]);
}

// How many boxes break lines to find room: code, printed lines that do not stand beside a picture, and tables.
function broken(page) {
  const cut = (selector, unbroken) => [...page.querySelectorAll(selector)].filter((box) => {
    const before = box.style.cssText;
    Object.assign(box.style, unbroken);
    const found = box.scrollWidth > box.clientWidth + 1 || box.offsetWidth > box.parentElement.clientWidth + 1;
    box.style.cssText = before;
    return found;
  }).length;
  const lines = ".highlight pre, .jp-MarkdownCell pre, .jp-OutputArea:not(:has(img)) .jp-RenderedText pre";
  return cut(lines, { whiteSpace: "pre" }) + cut(".jp-OutputArea table", { whiteSpace: "nowrap", maxWidth: "none" });
}

// Draws the page as large as it may be; that size. Larger letters are not worth broken lines.
function largest(page) {
  draw(page, 1);
  const anyway = broken(page);
  for (let size = LARGEST; size > SMALLEST; size -= STEP) {
    if (draw(page, size) && (size < 1 + STEP / 2 || broken(page) <= anyway)) return size;
  }
  return draw(page, SMALLEST) ? SMALLEST : 0;
}

// A moved slider may bring a longer sentence: the page is fitted with room for the longest.
function reserve(readout) {
  const said = readout.textContent;
  readout.textContent = readout.dataset.longest;
  readout.style.minHeight = `${readout.offsetHeight}px`;
  readout.textContent = said;
}

// Explorers redraw between two frames. A tab in the background has no frames and gets some time instead.
const nextFrame = () => new Promise((resolve) => {
  requestAnimationFrame(() => requestAnimationFrame(resolve));
  setTimeout(resolve, 500);
});

async function start() {
  await window.MathJax.startup.promise;
  await Promise.all([...document.querySelectorAll(".labsim-standalone")].map(drawn));
  await Promise.all([...document.images].map((image) => image.decode().catch(() => {})));
  await document.fonts.ready;
  await nextFrame(); // explorers redraw at the width of their place
  document.querySelectorAll(".labsim-readout[data-longest]").forEach(reserve);
  document.querySelectorAll(".page").forEach(fit);
  await nextFrame();
  document.querySelectorAll(".page").forEach(fit); // a smaller explorer has room for longer lines
  document.body.classList.remove("measuring");
  await window.Reveal.initialize({
    width: 1280,
    height: HEIGHT,
    margin: 0.02,
    center: false,
    hash: true,
    slideNumber: "c/t",
    controlsTutorial: false,
    transition: "none",
    pdfSeparateFragments: false,
    pdfMaxPagesPerSlide: 1,
    plugins: [window.RevealNotes],
    keyboard: { 67: toggleCode },
  });
  window.labsimDeck = "ready";
}

// The key C opens and closes the code of the slide.
function toggleCode() {
  const folds = [...window.Reveal.getCurrentSlide().querySelectorAll("details.code:not(.inline)")];
  const open = folds.findIndex((fold) => fold.open);
  folds.forEach((fold, index) => {
    fold.open = index === open + 1;
  });
}

// Keys belong to the explorer that has the focus; after a mouse has moved a slider, to the slides again.
document.addEventListener("keydown", (event) => {
  if (event.target.closest?.(".labsim-standalone")) event.stopImmediatePropagation();
});
document.addEventListener("pointerup", (event) => {
  if (event.target.matches?.(".labsim-standalone input[type=range]")) event.target.blur();
});

start().catch((error) => {
  window.labsimDeck = String(error);
  document.body.classList.remove("measuring");
  throw error;
});
