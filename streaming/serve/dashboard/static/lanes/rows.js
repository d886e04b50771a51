// The rows of the timeline from top to bottom: lanes, and folds of lanes with their own lanes below them if they are open.

const LANE = 22, LINE = 17, FOLD = 50;

// Returns {lane, fold, y, height, bar: [y, height]} for each row; narrow screens have the names above the bars.
export const rowsOf = (data, narrow, open) => {
  const rows = [];
  let y = 0;
  const add = (row, above, below) => {
    rows.push({ ...row, y, height: above + LANE + below, bar: y + above });
    y += above + LANE + below;
  };
  const lane = (number, inside) => add({ lane: number, inside }, narrow ? LINE : 0, data.why[number] ? LINE : 0);
  if (!data.folds.length || (data.narrow && !narrow)) {
    const top = data.many ? data.top : [], listed = new Set(top);
    top.forEach((one) => lane(one));
    data.lanes.forEach((_, one) => listed.has(one) || lane(one));
  } else {
    data.top.forEach((one) => lane(one));
    for (const fold of data.folds) {
      add({ fold }, FOLD - LANE, 0);
      if (open.has(fold.name)) fold.lanes.forEach((one) => lane(one, true));
    }
  }
  return { rows, height: y };
};

// Returns the index of the row at a height, or of the last one above it.
export const rowAt = (rows, y) => {
  let low = 0, high = rows.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (rows[middle].y <= y) low = middle;
    else high = middle - 1;
  }
  return low;
};
