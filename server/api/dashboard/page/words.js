// Figures as people read them.

export function count(number) {
  return number.toLocaleString("en");
}

export function rate(perSecond) {
  if (perSecond === null) return "–";
  return perSecond > 0 && perSecond < 100 ? perSecond.toFixed(1) : count(Math.round(perSecond));
}

export function duration(seconds) {
  if (seconds < 1) return `${Math.round(1000 * seconds)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  return `${Math.floor(seconds / 60)} min`;
}

export function share(part) {
  return part === null ? "–" : `${Math.round(100 * part)} %`;
}

export function setText(id, text) {
  document.getElementById(id).textContent = text;
}
