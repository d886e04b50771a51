// Returns a text in the reader's language, with the values in the place of `{name}`. The server writes the texts of all
// scripts into the page: it finds them by this function's name, so each is a literal in double quotes. A name without a
// value stays, so that a script can put it in later.
const text = (english, values = {}) =>
  (rebalanceWatchTexts[english] ?? english).replace(/\{(\w+)\}/g, (place, name) => values[name] ?? place);
