// Shows times in the browser's zone or in UTC, as chosen in the top bar; the server writes them in UTC.
const rebalanceWatchTimes = (() => {
  const isIso = document.documentElement.lang.startsWith("zh"), key = "rebalance-watch-zone", isUtc = localStorage.getItem(key) === "UTC";
  const offset = (ms) => (isUtc ? 0 : -new Date(ms).getTimezoneOffset());
  // ISO 8601 without a zone: the fields of the zone, read through the UTC functions of a shifted date.
  const iso = (ms) => new Date(ms + offset(ms) * 60_000).toISOString().slice(0, -1);
  const zone = (ms) => {
    const minutes = offset(ms), rest = Math.abs(minutes) % 60;
    if (!minutes) return "UTC";
    return `UTC${minutes > 0 ? "+" : "-"}${Math.floor(Math.abs(minutes) / 60)}${rest ? `:${String(rest).padStart(2, "0")}` : ""}`;
  };
  const day = (ms) => iso(ms).slice(0, 10);
  const clock = (ms, long) => (long ? `${day(ms)} ${iso(ms).slice(11, 19)} ${zone(ms)}` : iso(ms).slice(11, 16));
  // As `markup.clock` formats it on the server: without the day if it is that of the other instant.
  const shown = (ms, near) => {
    if (near && day(near) === day(ms)) return iso(ms).slice(11, 19);
    if (isIso) return `${day(ms)} ${iso(ms).slice(11, 19)}`;
    return new Date(`${iso(ms)}Z`).toUTCString().slice(5, 25).replace(/^0/, "");
  };
  const read = (text) => (isUtc ? Date.parse(`${text}Z`) : new Date(text).getTime());
  const write = (node, text) => {
    if (node.textContent !== text) node.textContent = text;
  };
  const localize = () => {
    for (const node of document.querySelectorAll("time[datetime]")) {
      write(node, shown(Date.parse(node.dateTime), Date.parse(node.dataset.near ?? "")));
    }
    for (const node of document.querySelectorAll("[data-zone-at]")) write(node, zone(Date.parse(node.dataset.zoneAt)));
    const now = Date.now();
    for (const node of document.querySelectorAll("[data-zone-switch]")) {
      write(node.firstElementChild ?? node, text("Times in {zone}", { zone: zone(now) }));
      node.title = isUtc ? text("Show times in this browser's zone") : text("Show times in UTC");
    }
    for (const node of document.querySelectorAll("input[data-pick-time]:not([value])")) {
      const { at, first } = node.dataset;
      node.setAttribute("value", at ? iso(Date.parse(at)).slice(0, 19) : "");
      node.min = iso(Date.parse(first)).slice(0, 19);
    }
  };
  addEventListener("click", (event) => {
    if (!event.target.closest?.("[data-zone-switch]")) return;
    localStorage.setItem(key, isUtc ? "local" : "UTC");
    location.reload();
  });
  addEventListener("change", (event) => {
    if (!event.target.matches?.("[data-pick-time]") || !event.target.value) return;
    const address = new URL(location.href);
    address.searchParams.set("at", new Date(read(event.target.value)).toISOString());
    location.href = address.href;
  });
  new MutationObserver(localize).observe(document.documentElement, { childList: true, subtree: true });
  return { clock, day };
})();
