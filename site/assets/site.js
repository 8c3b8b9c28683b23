// The theme button, the menu on small screens, and the search.
const root = document.documentElement;
const $ = (id) => document.getElementById(id);

const themes = ["auto", "light", "dark"];

function showTheme() {
  $("theme").textContent = `Theme: ${root.dataset.theme}`;
}

$("theme").hidden = false;
$("theme").addEventListener("click", () => {
  root.dataset.theme = themes[(themes.indexOf(root.dataset.theme) + 1) % themes.length];
  try {
    localStorage.setItem("theme", root.dataset.theme);
  } catch {
    // storage is disabled: the choice holds for this page
  }
  showTheme();
});
showTheme();

// The menu is open on wide screens and closed on small ones.
const menu = document.querySelector("#pages details");
const narrow = matchMedia("(max-width: 60rem)");
const fold = () => { menu.open = !narrow.matches; };
narrow.addEventListener("change", fold);
fold();
menu.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
scrollTo({ top: location.hash ? scrollY : 0 });

const finder = $("finder");
const input = finder.querySelector("input");
const base = new URL(".", import.meta.url);
let engine;

function openFinder() {
  engine ??= import(new URL("pagefind/pagefind.js", base));
  finder.showModal();
  input.select();
}

$("search").hidden = false;
$("search").addEventListener("click", openFinder);
addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select");
  if ((event.key === "/" && !typing) || (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey))) {
    event.preventDefault();
    openFinder();
  }
  if (finder.open && ["ArrowDown", "ArrowUp"].includes(event.key)) {
    event.preventDefault();
    moveFocus(event.key === "ArrowDown" ? 1 : -1);
  }
});
finder.addEventListener("click", (event) => { if (event.target === finder) finder.close(); });
finder.addEventListener("keydown", (event) => { if (event.key === "Enter" && event.target === input) $("results").querySelector("a")?.click(); });

function moveFocus(step) {
  const stops = [input, ...$("results").querySelectorAll("a")];
  stops[(stops.indexOf(document.activeElement) + step + stops.length) % stops.length].focus();
}

const limit = 8;
input.addEventListener("input", async () => {
  const text = input.value.trim();
  const search = await (await engine).debouncedSearch(text, {}, 120);
  if (search === null) return; // newer input follows
  const found = await Promise.all(search.results.slice(0, limit).map((result) => result.data()));
  if (input.value.trim() !== text) return;
  $("count").textContent = text === "" ? "" : `${search.results.length} ${search.results.length === 1 ? "page" : "pages"}`;
  $("results").replaceChildren(...found.map(showResult));
});

const score = (part) => part.weighted_locations.reduce((sum, location) => sum + location.balanced_score, 0);

// showResult links to the section of the page that matches best.
function showResult(page) {
  const [best = page] = page.sub_results.toSorted((a, b) => score(b) - score(a));
  const item = document.createElement("li");
  const link = document.createElement("a");
  link.href = best.url;
  link.addEventListener("click", () => finder.close());
  const title = document.createElement("strong");
  title.textContent = best.title === page.meta.title ? page.meta.title : `${page.meta.title} › ${best.title}`;
  const excerpt = document.createElement("span");
  excerpt.innerHTML = best.excerpt; // escaped by the search engine, except for its <mark>
  link.append(title, excerpt);
  item.append(link);
  return item;
}
