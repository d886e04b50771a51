// Shows times in the browser's zone or in UTC, as chosen in the top bar; the server writes them in UTC.
const rebalanceWatchTimes = (() => {
  const key = "rebalance-watch-zone", isUtc = localStorage.getItem(key) === "UTC";
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
    return `${day(ms)} ${iso(ms).slice(11, 19)}`;
  };
  const UNITS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
  // The instant that a user has written: a time ago of what is shown as now, a date and time, or the last time that a
  // clock of the zone showed a time of day; NaN if it is none. On a 24-hour clock, whatever the browser's language.
  const chosen = (written, live) => {
    const ago = /^(\d{1,6})\s*([smhd])(?:\s+ago)?$/.exec(written), clock = /^(\d{1,2}):(\d\d)(?::(\d\d))?$/.exec(written);
    if (ago) return live - ago[1] * UNITS[ago[2]];
    if (clock) {
      const at = read(`${day(live)}T${clock[1].padStart(2, "0")}:${clock[2]}:${clock[3] ?? "00"}`);
      return at <= live ? at : at - UNITS.d;
    }
    return /^\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?$/.test(written) ? read(written.replace(" ", "T")) : NaN;
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
      node.setAttribute("value", node.dataset.at ? shown(Date.parse(node.dataset.at)) : "");
    }
  };
  // A sentence in which each time that is written by ISO 8601 is shown as every other one; as `markup.dated`.
  const dated = (said) => said.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, (time) => clock(Date.parse(time), true));
  addEventListener("click", (event) => {
    if (!event.target.closest?.("[data-zone-switch]")) return;
    localStorage.setItem(key, isUtc ? "local" : "UTC");
    location.reload();
  });
  const go = (field, written) => {
    const at = chosen(written, field.dataset.live ? Date.parse(field.dataset.live) : Date.now());
    const wrong = Number.isNaN(at) ? text("Invalid time. Use 2026-11-21 15:58:00, 15:58, or a time ago such as 2h.")
      : at < Date.parse(field.dataset.first) - 1_000 ? text("History begins {time}.", { time: clock(Date.parse(field.dataset.first), true) }) : "";
    field.setCustomValidity(wrong);
    if (wrong) return field.reportValidity();
    const address = new URL(location.href);
    address.searchParams.set("at", new Date(at).toISOString());
    location.href = address.href;
  };
  addEventListener("change", (event) => {
    const { target } = event;
    if (target.matches?.("[data-pick-time]") && target.value.trim()) go(target, target.value.trim());
    if (target.matches?.("[data-time-ago]") && target.value) go(target.closest(".pick").querySelector("[data-pick-time]"), target.value);
  });
  addEventListener("input", (event) => event.target.matches?.("[data-pick-time]") && event.target.setCustomValidity(""));
  new MutationObserver(localize).observe(document.documentElement, { childList: true, subtree: true });
  return { clock, dated, day };
})();
