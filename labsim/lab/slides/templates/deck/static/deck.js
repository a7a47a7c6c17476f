// Starts a deck: waits until formulas, fonts, pictures and explorers stand, draws too full pages smaller, then hands
// over to reveal.js. `window.labsimDeck` is "ready" when the first slide can be seen, or what went wrong.

const HEIGHT = 720; // of a slide; its width is 1280
const SMALLEST = 0.7; // a page that is still too high at this size is an overflow, which `labsim slides --check` finds
const STEP = 0.025;

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

function fit(page) {
  const slide = page.parentElement;
  for (let size = 1; size >= SMALLEST - STEP / 2; size -= STEP) {
    if (size < 1) page.style.zoom = size.toFixed(3);
    if (slide.scrollHeight <= HEIGHT) break;
  }
  page.dataset.size = page.style.zoom || "1";
}

const nextFrame = () => new Promise((resolve) => setTimeout(resolve, 50));

async function start() {
  await window.MathJax.startup.promise;
  await Promise.all([...document.querySelectorAll(".labsim-standalone")].map(drawn));
  await Promise.all([...document.images].map((image) => image.decode().catch(() => {})));
  await document.fonts.ready;
  await nextFrame(); // explorers redraw at the width of their place
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
  const folds = [...window.Reveal.getCurrentSlide().querySelectorAll("details.code")];
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
