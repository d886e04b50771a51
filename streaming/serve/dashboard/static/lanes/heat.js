// Many lanes in few rows of pixels: each pixel has the colour of the worst that happened to one of its lanes, so that a
// rebalance is an edge, a dead broker a band, and one stuck queue among thousands still a line.

// What happened to a queue, by rank: `_MEANING` of `ownership_timeline.py` has those of incidents.
export const SAME = 1, MOVED = 2, MARKED = 3, UNASSIGNED = 4, WARNING = 5, DOUBLE = 6, CRITICAL = 7;
export const COLOURS = {
  [SAME]: "--same", [MOVED]: "--moved", [MARKED]: "--accent", [UNASSIGNED]: "--free", [WARNING]: "--warn",
  [DOUBLE]: "--double", [CRITICAL]: "--bad",
};

// Returns the meaning of the span at index i of the spans of a lane: its owner compared with that at the beginning.
export const meaning = ({ spans, first }, lane, i, marked) => {
  const client = spans[i + 3];
  if (client < 0) return UNASSIGNED;
  if (marked.has(client)) return MARKED;
  return client === spans[first[lane][0] + 3] ? SAME : MOVED;
};

// Returns the worst meaning for each pixel, row by row; 0: nothing is known.
export const heat = (model, lanes, width, height, marked) => {
  const cells = new Uint8Array(width * height), { from, to, spans, affected, first, hurt } = model, scale = width / (to - from);
  const fill = (row, begin, end, worst) => {
    const left = Math.max(0, Math.floor(begin * scale)), right = Math.min(width, Math.max(left + 1, Math.ceil(end * scale)));
    for (let at = row * width + left; at < row * width + right; at++) if (cells[at] < worst) cells[at] = worst;
  };
  lanes.forEach((lane, n) => {
    const row = Math.floor((n * height) / lanes.length), below = Math.max(row + 1, Math.floor(((n + 1) * height) / lanes.length));
    for (let y = row; y < below; y++) {
      for (const i of first[lane]) fill(y, spans[i + 1], spans[i + 2], meaning(model, lane, i, marked));
      for (const i of hurt[lane]) fill(y, affected[i + 1], affected[i + 2], affected[i + 3]);
    }
  });
  return cells;
};

// Paints the pixels onto a canvas of their size, to be drawn at any place and scale.
export const picture = (cells, width, height, colour) => {
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  const pen = canvas.getContext("2d", { willReadFrequently: true }), image = pen.createImageData(width, height);
  const shades = Object.entries(COLOURS).map(([worst, name]) => {
    pen.fillStyle = colour(name);
    pen.fillRect(0, 0, 1, 1);
    return [Number(worst), pen.getImageData(0, 0, 1, 1).data];
  });
  const of = Object.fromEntries(shades);
  cells.forEach((worst, at) => worst && image.data.set(of[worst], at * 4));
  pen.putImageData(image, 0, 0);
  return canvas;
};
