// Applies the theme of the system or the one chosen here, before the first paint.
(() => {
  const key = "rebalance-watch-theme", root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)");
  const names = { system: "system", light: "light", dark: "dark" };
  const apply = () => {
    const chosen = localStorage.getItem(key) ?? "system";
    root.dataset.themeChoice = chosen;
    root.dataset.theme = chosen === "system" ? (system.matches ? "dark" : "light") : chosen;
    for (const button of document.querySelectorAll("[data-theme-switch]")) {
      button.setAttribute("aria-label", `Theme: ${names[chosen]}. Change theme`);
      button.title = `Theme: ${names[chosen]}`;
    }
    dispatchEvent(new Event("rw-theme"));
  };
  system.addEventListener("change", apply);
  addEventListener("storage", apply);
  addEventListener("click", (event) => {
    if (!event.target.closest?.("[data-theme-switch]")) return;
    const order = system.matches ? ["system", "light", "dark"] : ["system", "dark", "light"];
    localStorage.setItem(key, order[(order.indexOf(root.dataset.themeChoice) + 1) % 3]);
    apply();
  });
  new MutationObserver(() => document.querySelector("[data-theme-switch]:not([title])") && apply()).observe(root, { childList: true, subtree: true });
  apply();
})();
