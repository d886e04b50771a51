// Applies the theme of the system or the one chosen here, before the first paint; copies commands, and applies filters
// and the language.
(() => {
  const key = "rebalance-watch-theme", root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)");
  const names = { system: text("system"), light: text("light"), dark: text("dark") };
  const apply = () => {
    const chosen = localStorage.getItem(key) ?? "system";
    root.dataset.themeChoice = chosen;
    root.dataset.theme = chosen === "system" ? (system.matches ? "dark" : "light") : chosen;
    for (const button of document.querySelectorAll("[data-theme-switch]")) {
      button.setAttribute("aria-label", text("Theme: {theme}. Change theme", { theme: names[chosen] }));
      button.title = text("Theme: {theme}", { theme: names[chosen] });
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
// The server renders the page, so it must know the language: a cookie, for a year.
(() => {
  const name = "rebalance-watch-language", asked = "rebalance-watch-language-asked";
  addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-language-switch]");
    if (!button) return;
    const secure = location.protocol === "https:" ? "; secure" : "";
    document.cookie = `${name}=${button.dataset.languageSwitch}; path=/; max-age=31536000; samesite=lax${secure}`;
    location.reload();
  });
  // A page that was on its way when the language was chosen, as after a lost connection, replaces the reload, in the
  // former language: it is loaded again, once.
  const chosen = document.cookie.split("; ").find((one) => one.startsWith(`${name}=`))?.slice(name.length + 1);
  if (!chosen || document.documentElement.lang.startsWith(chosen)) sessionStorage.removeItem(asked);
  else if (sessionStorage.getItem(asked) !== chosen) {
    sessionStorage.setItem(asked, chosen);
    location.reload();
  }
})();
addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (!button) return;
  const node = document.getElementById(button.dataset.copy);
  getSelection().selectAllChildren(node);
  // The clipboard's interface exists only over HTTPS and on this machine.
  if (navigator.clipboard) await navigator.clipboard.writeText(node.textContent).catch(() => document.execCommand("copy"));
  else document.execCommand("copy");
  button.textContent = text("Copied");
  setTimeout(() => (button.textContent = text("Copy")), 2000);
});
// A time or a period of the bar at the top is in the address; the rest of it stays.
addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-parameter]");
  if (!button) return;
  const address = new URL(location.href);
  address.searchParams.delete(button.dataset.parameter);
  if (button.dataset.value) address.searchParams.set(button.dataset.parameter, button.dataset.value);
  location.href = address.href;
});
// A form of filters is in the address, without those that are not set; the time stays.
const applyFilters = (form) => {
  const address = new URL(location.href);
  for (const field of form.elements) {
    if (!field.name) continue;
    const value = field.type === "checkbox" ? (field.checked ? "true" : "") : field.value;
    if (value) address.searchParams.set(field.name, value);
    else address.searchParams.delete(field.name);
  }
  if (address.href !== location.href) location.href = address.href;
};
addEventListener("change", (event) => event.target.form?.matches("[data-filters]") && applyFilters(event.target.form));
addEventListener("submit", (event) => {
  if (!event.target.matches("[data-filters]")) return;
  event.preventDefault();
  applyFilters(event.target);
});
// A form that does something is sent to REST as JSON; what went wrong is said beside it. The name of the person is kept
// in this browser.
(() => {
  const key = "rebalance-watch-author";
  addEventListener("toggle", (event) => {
    const field = event.target.open && event.target.querySelector?.("form[data-post] input[name=by]");
    if (field && !field.value) field.value = localStorage.getItem(key) ?? "";
  }, true);
  addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.matches("[data-post]")) return;
    event.preventDefault();
    const fields = Object.fromEntries(new FormData(form)), status = form.querySelector("[role=status]"), button = form.querySelector("[type=submit]");
    if (fields.by) localStorage.setItem(key, fields.by);
    button.disabled = true;
    status.textContent = "";
    try {
      const answer = await fetch(form.dataset.post, { method: "POST", headers: { "Content-Type": "application/json", "Rebalance-Watch-Source": "PAGE" }, body: JSON.stringify(fields) });
      const body = await answer.json().catch(() => ({}));
      status.textContent = answer.ok ? text("Done") : (body.error ?? answer.statusText);
    } catch {
      status.textContent = text("The server does not answer.");
    }
    button.disabled = false;
  });
})();
// The editor of the page for SQL: Ctrl+Enter runs its query, an example replaces it, a name of the schema is inserted. The
// browser can undo both.
(() => {
  const write = (value, replaces) => {
    const editor = document.getElementById("query");
    editor.focus();
    if (replaces) editor.select();
    document.execCommand("insertText", false, value);
  };
  addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || !event.target.matches?.("[data-submit]")) return;
    event.preventDefault();
    event.target.form.requestSubmit();
  });
  addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-fill], [data-insert]");
    if (!button) return;
    const { fill, insert } = button.dataset;
    write(fill ?? insert, fill !== undefined);
    if (fill !== undefined) button.closest("details")?.removeAttribute("open");
  });
})();
// The answer of a query as a file: REST is asked for all of its rows. As on the command line, a text that a spreadsheet
// would compute begins with an apostrophe, and characters that can't be seen are escaped.
(() => {
  const cell = (value) => {
    if (value === null) return "";
    let written = typeof value === "object" ? JSON.stringify(value) : String(value);
    written = written.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (one) => `\\u${one.codePointAt(0).toString(16).padStart(4, "0")}`);
    if (typeof value === "string" && /^[=+\-@＝＋－＠]/.test(written) && !/^[+-]?[0-9][0-9.,]*(e[+-]?[0-9]+)?$/i.test(written)) written = `'${written}`;
    return /[",]/.test(written) ? `"${written.replaceAll('"', '""')}"` : written;
  };
  addEventListener("click", async (event) => {
    const button = event.target.closest?.("[data-csv]");
    if (!button) return;
    const status = button.previousElementSibling;
    button.disabled = true;
    status.textContent = "";
    try {
      const answer = await fetch(button.dataset.csv, { method: "POST", headers: { "Content-Type": "application/json", "Rebalance-Watch-Source": "PAGE" }, body: JSON.stringify({ query: button.dataset.query }) });
      const body = await answer.json();
      if (answer.ok) {
        const lines = [body.columns, ...body.rows].map((row) => row.map(cell).join(","));
        const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(new Blob([lines.join("\n"), "\n"], { type: "text/csv" })), download: "answer.csv" });
        link.click();
        URL.revokeObjectURL(link.href);
      } else status.textContent = body.error ?? answer.statusText;
    } catch {
      status.textContent = text("The server does not answer.");
    }
    button.disabled = false;
  });
})();
// When the session of who has signed in has ended, also in another tab, the server closes the page's connection: the
// page is loaded again, which leads to signing in.
setInterval(async () => {
  const user = document.querySelector("[data-session]");
  if (!user || window.socket?.connected !== false) return;
  const answer = await fetch(user.dataset.session).catch(() => null);
  if (answer?.status === 401) location.reload();
}, 2000);
// The browser looks for the part that an address names before the page has its content.
(() => {
  if (!location.hash) return;
  const looking = new MutationObserver(() => {
    const part = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!part) return;
    looking.disconnect();
    requestAnimationFrame(() => part.scrollIntoView());
  });
  looking.observe(document.documentElement, { childList: true, subtree: true });
  addEventListener("wheel", () => looking.disconnect(), { once: true, passive: true });
})();
