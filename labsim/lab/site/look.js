// Measures a rendered page for look.py: texts that are too faint, and parts wider than the screen.

const parse = (text) => {
  const parts = text.match(/[\d.]+/g)?.map(Number) || [0, 0, 0, 0];
  const scale = text.startsWith("color(srgb") ? 255 : 1;
  return [parts[0] * scale, parts[1] * scale, parts[2] * scale, parts[3] ?? 1];
};
const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
const luminance = ([r, g, b]) => {
  const linear = [r, g, b].map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
};
const contrast = (one, other) => {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};
const hex = (colour) => "#" + colour.slice(0, 3).map((c) => Math.round(c).toString(16).padStart(2, "0")).join("");

function chain(element) {
  const found = [];
  for (let one = element; one; one = one.parentElement) found.unshift(one);
  return found;
}

// What lies behind a text: every background from the page's own down to the element's, composed.
function behind(element) {
  const dark = getComputedStyle(document.documentElement).colorScheme.includes("dark only");
  return chain(element).reduce(
    (below, one) => over(parse(getComputedStyle(one).backgroundColor), below), dark ? [18, 18, 18, 1] : [255, 255, 255, 1],
  );
}

function where(element) {
  const named = [element, element.parentElement].filter(Boolean).reverse();
  return named.map((one) => one.localName + [...one.classList].slice(0, 2).map((c) => `.${c}`).join("")).join(" > ");
}

function shown(element) {
  if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) return false;
  if (element.closest(".visually-hidden, [aria-hidden=true], [aria-disabled=true], :disabled, .skip-to-content")) return false;
  const box = element.getBoundingClientRect();
  return box.width > 0 && box.height > 0;
}

function faint() {
  const found = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim();
    const element = walker.currentNode.parentElement;
    if (!text || ["SCRIPT", "STYLE", "NOSCRIPT", "OPTION", "title"].includes(element.tagName) || !shown(element)) continue;
    const style = getComputedStyle(element);
    const back = behind(element);
    const colour = parse(element instanceof SVGElement ? style.fill : style.color);
    colour[3] *= chain(element).reduce((product, one) => product * Number(getComputedStyle(one).opacity), 1);
    const front = over(colour, back);
    const size = parseFloat(style.fontSize);
    const wanted = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    const ratio = contrast(front, back);
    const key = `${hex(front)} ${hex(back)} ${wanted}`;
    if (ratio < wanted - 0.005 && !found.has(key)) {
      found.set(key, { ratio, wanted, colour: hex(front), behind: hex(back), where: where(element), text: text.slice(0, 40) });
    }
  }
  return [...found.values()];
}

function widest() {
  const screen = document.documentElement.clientWidth;
  const scrolls = (element) => chain(element).slice(0, -1)
    .some((one) => one !== document.body && one !== document.documentElement && getComputedStyle(one).overflowX !== "visible");
  const parts = [...document.body.querySelectorAll("*")]
    .filter((one) => one.checkVisibility() && one.getBoundingClientRect().right > screen + 1 && !scrolls(one));
  return { width: document.documentElement.scrollWidth, parts: [...new Set(parts.map(where))].slice(0, 5) };
}
