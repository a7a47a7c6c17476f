// Stands in for Jupyter's widget manager in an exported page. `HERE`, `STATE` and `SCRIPT` are put before it:
// the place's id, the widget's saved state and its own script. No kernel listens, so save_changes has nothing to do.

const here = document.getElementById(HERE);
const heard = {};
const model = {
  get: (name) => STATE[name],
  set: (name, value) => {
    const changed = JSON.stringify(STATE[name]) !== JSON.stringify(value);
    STATE[name] = value;
    if (changed) (heard[`change:${name}`] || []).forEach((call) => call());
  },
  save_changes: () => {},
  on: (name, call) => (heard[name] = [...(heard[name] || []), call]),
  off: (name, call) => (heard[name] = (heard[name] || []).filter((one) => one !== call)),
};
try {
  const script = URL.createObjectURL(new Blob([SCRIPT], { type: "text/javascript" }));
  (await import(script)).default.render({ model, el: here });
  here.dataset.ready = "yes";
} catch (error) {
  here.textContent = `This widget could not be drawn: ${error}`; // never blank without a word
  throw error;
}
