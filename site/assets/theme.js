// Runs before the first paint, so that a chosen theme does not flash.
try {
  document.documentElement.dataset.theme = localStorage.getItem("theme") ?? "auto";
} catch {
  document.documentElement.dataset.theme = "auto"; // storage is disabled
}
