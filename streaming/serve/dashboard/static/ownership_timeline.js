// Draws the owners of each queue over time: one lane per queue. A canvas paints only the lanes in view, so thousands of
// them cost no more than a screenful; the tables of the page contain the same information. With few clients each has a
// colour; with many a colour says what happened to the queue, and an overview of all lanes leads to them.
// The slider below selects the time that the whole page shows.

import { COLOURS, MARKED, SAME, heat, meaning, picture } from "rebalance-watch-lanes/heat.js";
import { rowAt, rowsOf } from "rebalance-watch-lanes/rows.js";

const LANE = 22, LINE = 17, NARROW = 560, ROW = 18, AXIS = 20, FLAGS = 12, PAD = 12;
const STEPS = [1, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800].map((s) => s * 1000);

const { clock, day } = rebalanceWatchTimes;
// As `labels.duration` formats it on the server.
const UNIT = { d: text("{n} d"), h: text("{n} h"), min: text("{n} min"), s: text("{n} s"), ms: text("{n} ms") };
const of = (n, unit) => UNIT[unit].replace("{n}", n);
const SCALES = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]];
const duration = (ms) => {
  if (ms > 0 && ms < 1000) return of(ms, "ms");
  if (ms < 60_000) return of(Math.floor(ms / 100) / 10, "s");
  const s = Math.floor(ms / 1000), [size, unit, smaller, name] = SCALES.find(([size]) => s >= size);
  const rest = Math.floor((s % size) / smaller);
  return of(Math.floor(s / size), unit) + (rest ? ` ${of(rest, name)}` : "");
};

// Places each incident of the whole group on the first free row.
const rows = (incidents, gap) => {
  const ends = [];
  return incidents.map((incident) => {
    let row = ends.findIndex((end) => end + gap < incident.from);
    if (row < 0) row = ends.length;
    ends[row] = incident.to;
    return { ...incident, row };
  });
};

export default {
  template: `
    <div class="lanes" :style="{ '--gutter': gutter + 'px' }" @pointerdown="pick" @click.capture="picking">
      <canvas ref="head" class="lanes-head" role="img" :aria-label="data.summary"
        @pointermove="over($event, 'head')" @pointerleave="leave" @click="press($event, 'head')"></canvas>
      <canvas v-if="data.bands.length" ref="overview" class="lanes-overview" role="img" :aria-label="data.overview"
        @pointermove="over($event, 'overview')" @pointerleave="leave" @click="lead"></canvas>
      <div ref="scroll" class="lanes-scroll" tabindex="0" role="group" :aria-label="data.label" @scroll="later">
        <div class="lanes-rows" :style="{ height: height + 'px' }">
          <canvas ref="body" class="lanes-body" aria-hidden="true"
            @pointermove="over($event, 'body')" @pointerleave="leave" @click="press($event, 'body')"></canvas>
          <button v-for="(one, n) in heads" :key="one.name" class="fold-head" :style="{ top: one.y + 'px' }"
            :aria-expanded="one.open" :tabindex="n === current ? 0 : -1" @click="toggle(one.name)"
            @keydown="walk($event, n)" @focus="current = n; mark(one.client)" @blur="mark(-1)"
            @pointerenter="mark(one.client)" @pointerleave="mark(-1)">
            <span class="fold-sign" aria-hidden="true">{{ one.open ? "▾" : "▸" }}</span>
            <b v-if="one.status !== 'OK'" class="status" :class="one.status">{{ one.says }}</b>
            <span class="fold-name">{{ one.name }}</span> <span class="quiet">{{ one.facts }}</span>
          </button>
        </div>
      </div>
      <input ref="range" class="lanes-range" type="range" :aria-label="rangeLabel"
        :min="data.from" :max="data.to" :step="step" @input="slide" @keydown.esc="data.live && choose(null)" />
      <div v-if="pointed !== null" class="lanes-cursor" aria-hidden="true" :style="{ left: pointed + 'px' }"></div>
      <div v-if="picked" class="lanes-picked" aria-hidden="true" :style="{ left: picked.left + 'px', width: picked.width + 'px' }"></div>
      <div v-if="tip" class="lanes-tip" aria-hidden="true" :style="{ left: tip.x + 'px', top: tip.y + 'px' }">
        <div v-for="line in tip.lines">{{ line }}</div>
      </div>
    </div>`,
  props: { json: String, at: Number, charts: Array },
  data: () => ({ tip: null, picked: null, pointed: null, gutter: 180, height: 0, heads: [], current: 0, rangeLabel: text("Time that the page shows") }),
  computed: {
    data() {
      return JSON.parse(this.json);
    },
    step() {
      return Math.max(1, Math.round((this.data.to - this.data.from) / 720));
    },
  },
  created() {
    this.open = new Set();
    this.hovered = -1;
    this.flash = -1;
    this.pictures = new Map();
  },
  mounted() {
    this.instant = this.at ?? null;
    this.arrange();
    this.resized = new ResizeObserver(() => this.paint());
    this.resized.observe(this.$el);
    addEventListener("rw-theme", this.later);
    this.seek(this.instant);
    for (const id of this.charts) this.followed(id);
  },
  unmounted() {
    this.resized.disconnect();
    removeEventListener("rw-theme", this.later);
  },
  watch: {
    data() {
      this.arrange();
      this.$nextTick(() => this.seek(this.instant));
    },
  },
  methods: {
    // Shows an instant, null for now; also called by the server.
    seek(at) {
      this.instant = at;
      const range = this.$refs.range;
      range.value = at ?? this.data.to;
      range.setAttribute("aria-valuetext", at === null ? text("now, {time}", { time: clock(this.data.to, true) }) : clock(at, true));
      this.later();
    },
    slide(event) {
      const value = Number(event.target.value);
      this.choose(this.data.live && value > this.data.to - this.step ? null : value);
    },
    choose(at) {
      this.seek(at);
      clearTimeout(this.waiting);
      this.waiting = setTimeout(() => this.$emit("seek", at), 90);
    },
    arrange() {
      const data = this.data;
      this.model = {
        ...data,
        first: data.lanes.map(() => []),
        marks: data.lanes.map(() => []),
        hurt: data.lanes.map(() => []),
        order: data.bands.flatMap((band) => band.lanes),
        group: rows(data.incidents.filter((i) => i.lane < 0), (data.to - data.from) / 100),
      };
      for (let i = 0; i < data.spans.length; i += 4) {
        this.model.first[data.spans[i]].push(i);
      }
      for (let i = 0; i < data.affected.length; i += 4) this.model.hurt[data.affected[i]].push(i);
      for (const incident of data.incidents) if (incident.lane >= 0) this.model.marks[incident.lane].push(incident);
      this.headRows = Math.min(4, 1 + Math.max(-1, ...this.model.group.map((i) => i.row)));
      this.pictures.clear();
      this.hovered = -1;
      this.layOut();
    },
    // Places the rows; they depend on what is folded and on the width.
    layOut() {
      this.narrow = (this.$refs.scroll?.clientWidth ?? NARROW) < NARROW;
      const { rows, height } = rowsOf(this.model, this.narrow, this.open), number = new Map(this.model.clients.map((one, n) => [one.id, n]));
      this.rows = rows;
      this.height = height;
      this.heads = rows.filter((row) => row.fold).map(({ fold, y }) => (
        { name: fold.name, facts: fold.facts, status: fold.status, says: fold.says, y, open: this.open.has(fold.name), client: number.get(fold.name) ?? -1 }
      ));
      this.current = Math.min(this.current, Math.max(0, this.heads.length - 1));
    },
    toggle(name) {
      if (!this.open.delete(name)) this.open.add(name);
      this.layOut();
      this.$nextTick(this.later);
    },
    // Arrows lead from fold to fold: hundreds of them are one stop of the Tab key.
    walk(event, n) {
      const to = { ArrowDown: n + 1, ArrowUp: n - 1, Home: 0, End: this.heads.length - 1 }[event.key];
      if (to === undefined || to < 0 || to >= this.heads.length) return;
      event.preventDefault();
      this.current = to;
      this.$el.querySelectorAll(".fold-head")[to].focus();
    },
    // A mouse that is dragged over the lanes selects the period to show; a finger scrolls.
    pick(event) {
      if (event.pointerType === "touch" || event.button || event.target.tagName !== "CANVAS") return;
      const canvas = event.target.getBoundingClientRect(), left = canvas.left - this.$el.getBoundingClientRect().left;
      const within = (x) => Math.min(this.width - PAD, Math.max(this.gutter, x - canvas.left)), begin = within(event.clientX);
      const move = (moved) => {
        const end = within(moved.clientX);
        this.picked = Math.abs(end - begin) > 6 ? { left: left + Math.min(begin, end), width: Math.abs(end - begin), ends: [this.time(begin), this.time(end)] } : null;
        if (this.picked) this.tip = null;
      };
      const drop = (dropped) => {
        removeEventListener("pointermove", move);
        removeEventListener("pointerup", drop);
        removeEventListener("pointercancel", drop);
        if (dropped.type === "pointerup" && this.picked) this.$emit("zoom", this.picked.ends);
        this.wasPicking = this.picked !== null;
        this.picked = null;
        setTimeout(() => (this.wasPicking = false));
      };
      addEventListener("pointermove", move);
      addEventListener("pointerup", drop);
      addEventListener("pointercancel", drop);
    },
    // The click that ends a selection opens nothing.
    picking(event) {
      if (this.wasPicking) event.stopPropagation();
    },
    // Highlights the queues of a client; -1: of none.
    mark(client) {
      if (client === this.hovered) return;
      this.hovered = client;
      this.later();
    },
    leave() {
      this.tip = null;
      this.mark(-1);
      this.point(null);
    },
    // A pointer over a chart is one over the lanes: a click selects the time.
    followed(id) {
      const chart = getHtmlElement(id);
      if (!chart) return setTimeout(() => this.followed(id), 50); // it is mounted later
      const time = (event) => {
        const box = chart.getBoundingClientRect(), share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
        return Math.round(this.data.from + share * (this.data.to - this.data.from));
      };
      chart.addEventListener("pointermove", (event) => this.point(time(event), id));
      chart.addEventListener("pointerleave", () => this.point(null));
      chart.addEventListener("click", (event) => this.choose(time(event)));
    },
    // Shows one cursor at a time in the lanes and in the charts, which say their values there; null: none.
    point(time, from = null) {
      this.pointed = time === null || !this.charts.length ? null : this.inset() + this.x(time);
      for (const id of this.charts) {
        const chart = id === from ? null : getElement(id)?.chart;
        if (!chart) continue;
        if (time === null) chart.dispatchAction({ type: "hideTip" });
        else chart.dispatchAction({ type: "showTip", x: Math.round(this.x(time) - this.gutter), y: chart.getHeight() / 2 });
      }
    },
    // Where the canvases begin within the component.
    inset() {
      return this.$refs.head.offsetLeft;
    },
    marked() {
      return new Set(this.hovered < 0 ? this.model.marked : [...this.model.marked, this.hovered]);
    },
    // The lane at a height of the overview.
    laneAt(event) {
      const box = this.$refs.overview.getBoundingClientRect(), { order } = this.model;
      return order[Math.min(order.length - 1, Math.max(0, Math.floor(((event.clientY - box.top) / box.height) * order.length)))];
    },
    // Scrolls to the lane under the pointer and opens its fold.
    lead(event) {
      const lane = this.laneAt(event), place = () => this.rows.findIndex((row) => row.lane === lane && (row.inside || !this.heads.length));
      if (place() < 0) {
        const fold = this.model.folds.findLast((one) => one.lanes.includes(lane)); // not that of a reason
        if (fold) this.open.add(fold.name);
        this.layOut();
      }
      this.flash = lane;
      this.$nextTick(() => {
        const row = this.rows[place()] ?? this.rows.find((one) => one.lane === lane);
        this.$refs.scroll.scrollTop = row.y - this.$refs.scroll.clientHeight / 3;
        this.later();
      });
      clearTimeout(this.flashing);
      this.flashing = setTimeout(() => {
        this.flash = -1;
        this.later();
      }, 2_000);
    },
    later() {
      cancelAnimationFrame(this.frame);
      this.frame = requestAnimationFrame(() => this.paint());
    },
    x(time) {
      return this.gutter + ((time - this.data.from) / (this.data.to - this.data.from)) * (this.width - this.gutter - PAD);
    },
    time(x) {
      const share = (x - this.gutter) / (this.width - this.gutter - PAD);
      return Math.round(this.data.from + Math.min(1, Math.max(0, share)) * (this.data.to - this.data.from));
    },
    surface(name, height) {
      const canvas = this.$refs[name], ratio = devicePixelRatio || 1;
      canvas.width = Math.round(this.width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${this.width}px`;
      canvas.style.height = `${height}px`;
      const pen = canvas.getContext("2d");
      pen.scale(ratio, ratio);
      pen.font = "12px Roboto, system-ui, sans-serif";
      pen.textBaseline = "middle";
      return pen;
    },
    paint() {
      if (!this.$refs.scroll) return;
      this.width = this.$refs.scroll.clientWidth;
      if (this.width < NARROW !== this.narrow) this.layOut();
      this.gutter = this.narrow ? 8 : Math.min(230, Math.max(130, this.model.widest * 6.6 + 34));
      const style = getComputedStyle(this.$el), known = new Map();
      this.colour = (name) => known.get(name) ?? known.set(name, style.getPropertyValue(name).trim()).get(name);
      const shown = [this.width, this.gutter, this.colour("--surface"), ...this.marked()].join();
      if (shown !== this.shown) this.pictures.clear();
      this.shown = shown;
      const panel = this.$el.parentElement.style; // the charts beside begin and end where the lanes do
      panel.setProperty("--lanes-left", `${this.inset() + this.gutter}px`);
      panel.setProperty("--lanes-width", `${this.width - this.gutter - PAD}px`);
      this.paintHead();
      if (this.$refs.overview) this.paintOverview();
      this.paintBody();
    },
    // Draws what happened to many lanes; painted once until the data, the width or the highlighted client changes.
    heat(pen, name, lanes, y, height, most) {
      const width = Math.max(1, Math.floor(this.width - this.gutter - PAD)), rows = Math.min(lanes.length, most);
      if (!this.pictures.has(name)) this.pictures.set(name, picture(heat(this.model, lanes, width, rows, this.marked()), width, rows, this.colour));
      pen.imageSmoothingEnabled = false;
      pen.drawImage(this.pictures.get(name), this.gutter, y, width, height);
    },
    paintOverview() {
      const { order, bands } = this.model, most = this.narrow ? 80 : 120, height = order.length <= most / 2 ? order.length * 2 : most;
      const pen = this.surface("overview", height);
      pen.fillStyle = this.colour("--sunken");
      pen.fillRect(this.gutter, 0, this.width - this.gutter - PAD, height);
      this.heat(pen, "", order, 0, height, most);
      let before = 0;
      for (const band of bands) {
        const y = (before / order.length) * height;
        before += band.lanes.length;
        const end = (before / order.length) * height;
        if (end - y < 12) continue; // neither a line nor a name would leave enough of it
        pen.fillStyle = this.colour("--surface");
        if (y) pen.fillRect(this.gutter, Math.round(y), this.width, 1);
        this.text(pen, band.name, 18, (y + end) / 2, this.gutter - 26, "--ink-2", true);
      }
      this.head(pen, height);
    },
    paintHead() {
      const height = AXIS + this.headRows * ROW + FLAGS;
      const pen = this.surface("head", height), { from, to, group, rebalances } = this.model;
      const step = STEPS.find((s) => (s / (to - from)) * (this.width - this.gutter) > 74) ?? STEPS.at(-1);
      pen.fillStyle = this.colour("--ink-2");
      let before = null;
      for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
        const today = day(t).slice(5), shown = step < 60_000 ? clock(t, true).slice(11, 19) : clock(t);
        pen.textAlign = this.x(t) > this.width - 40 ? "right" : this.x(t) < 24 ? "left" : "center";
        pen.fillText(before !== null && before !== today ? `${today} ${shown}` : shown, this.x(t), AXIS / 2);
        before = today;
      }
      pen.textAlign = "left";
      pen.save();
      pen.beginPath();
      pen.rect(this.gutter, 0, this.width - this.gutter - PAD + 2, height);
      pen.clip();
      for (const incident of group.filter((i) => i.row < 4)) {
        const [left, right] = this.ends(incident), y = AXIS + incident.row * ROW, colour = this.colour(incident.colour);
        pen.fillStyle = colour;
        pen.globalAlpha = 0.18;
        pen.fillRect(left, y + 2, right - left, ROW - 5);
        pen.globalAlpha = 1;
        pen.fillRect(left, y + 2, 3, ROW - 5);
        this.text(pen, incident.text, Math.max(left, this.gutter) + 7, y + ROW / 2, right - Math.max(left, this.gutter) - 9, "--ink");
      }
      pen.fillStyle = this.colour("--ink-2");
      for (const [start] of rebalances) {
        const x = this.x(start);
        pen.beginPath();
        pen.moveTo(x - 4, height - 9);
        pen.lineTo(x + 4, height - 9);
        pen.lineTo(x, height - 2);
        pen.fill();
      }
      pen.restore();
      if (this.headRows) this.text(pen, text("whole group"), 0, AXIS + ROW / 2, this.gutter - 10, "--ink-2");
      this.head(pen, height);
    },
    paintBody() {
      const scroll = this.$refs.scroll, height = scroll.clientHeight, top = scroll.scrollTop;
      const pen = this.surface("body", height), { rebalances } = this.model, { rows } = this;
      this.labels = []; // they are written over the marks of rebalances, on a ground of their own
      for (let n = rowAt(rows, top); n < rows.length && rows[n].y < top + height; n++) {
        if (rows[n].fold) this.heat(pen, rows[n].fold.name, rows[n].fold.lanes, rows[n].bar - top, LANE - 5, LANE - 5);
        else this.paintLane(pen, rows[n], -top);
      }
      pen.strokeStyle = this.colour("--ink-2");
      pen.globalAlpha = 0.55;
      pen.setLineDash([2, 3]);
      for (const [start] of rebalances) {
        const x = Math.round(this.x(start)) + 0.5;
        if (x < this.gutter) continue;
        pen.beginPath();
        pen.moveTo(x, 0);
        pen.lineTo(x, height);
        pen.stroke();
      }
      pen.setLineDash([]);
      pen.globalAlpha = 1;
      for (const label of this.labels) this.text(pen, ...label);
      this.head(pen, height);
    },
    paintLane(pen, row, offset) {
      const { lanes, spans, clients, first, marks, hurt, affected, status, why, from, byMeaning } = this.model, { lane } = row;
      const y = row.bar + offset, above = row.y + offset, indent = row.inside ? 12 : 0, marked = this.marked();
      const line = this.narrow ? above + LINE / 2 + 1 : y + LANE / 2;
      if (lane === this.flash) {
        pen.fillStyle = this.colour("--mark");
        pen.fillRect(0, above, this.width, row.height);
      }
      this.sign(pen, status[lane], 7 + indent, line);
      this.text(pen, lanes[lane], 18 + indent, line, (this.narrow ? this.width : this.gutter) - 26 - indent, "--ink", true);
      if (why[lane]) this.labels.push([rebalanceWatchTimes.dated(why[lane]), this.gutter + 2, y + LANE + LINE / 2 - 3, this.width - this.gutter - PAD, "--ink-2", false, "--surface"]);
      pen.save();
      pen.beginPath();
      pen.rect(this.gutter, y, this.width - this.gutter - PAD, LANE);
      pen.clip();
      pen.fillStyle = this.colour("--line");
      pen.fillRect(this.gutter, y + LANE - 1, this.width, 1);
      for (const i of first[lane]) {
        const left = this.x(from + spans[i + 1]), right = Math.max(left + 1, this.x(from + spans[i + 2])), client = spans[i + 3];
        if (client < 0) this.unassigned(pen, left, right, y);
        else {
          const of = byMeaning ? meaning(this.model, lane, i, marked) : 0;
          const ground = byMeaning ? COLOURS[of] : `--client-${clients[client].colour}`;
          pen.fillStyle = this.colour(ground);
          pen.fillRect(left, y + 2, Math.max(1, right - left - 1), LANE - 5);
          const ink = of === SAME ? "--ink" : of === MARKED ? "--on-accent" : "--client-ink";
          this.labels.push([clients[client].short, Math.max(left, this.gutter) + 6, y + LANE / 2 - 0.5, right - Math.max(left, this.gutter) - 10, ink, false, ground]);
        }
      }
      const parts = [
        ...marks[lane].map((one) => [one.from, one.to, one.colour]),
        ...hurt[lane].map((i) => [from + affected[i + 1], from + affected[i + 2], COLOURS[affected[i + 3]]]),
      ];
      for (const part of byMeaning ? parts : parts.reverse()) this.strip(pen, y, ...part);
      pen.restore();
    },
    strip(pen, y, begin, end, colour) {
      const left = this.x(begin);
      pen.fillStyle = this.colour(colour);
      pen.fillRect(left, y + LANE - 5, Math.max(3, this.x(end) - left), 4);
    },
    // An unassigned queue is hatched.
    unassigned(pen, left, right, y) {
      pen.save();
      pen.beginPath();
      pen.rect(left, y + 3, right - left, LANE - 7);
      pen.clip();
      pen.strokeStyle = this.colour("--hatch");
      const begin = Math.max(left, this.gutter) - LANE;
      for (let x = begin - (begin % 6); x < Math.min(right, this.width); x += 6) {
        pen.beginPath();
        pen.moveTo(x, y + LANE);
        pen.lineTo(x + LANE, y);
        pen.stroke();
      }
      pen.restore();
      const seen = right - Math.max(left, this.gutter);
      if (seen > 82) this.labels.push([text("unassigned"), Math.max(left, this.gutter) + 6, y + LANE / 2 - 0.5, seen - 10, "--ink-2", false, "--surface"]);
    },
    // The status of a queue, distinguished by shape as well as colour.
    sign(pen, status, x, y) {
      pen.fillStyle = pen.strokeStyle = this.colour({ BAD: "--bad", WARN: "--warn", OK: "--ok" }[status] ?? "--ink-2");
      pen.beginPath();
      if (status === "BAD") pen.rect(x - 4, y - 4, 8, 8);
      else if (status === "WARN") {
        pen.moveTo(x, y - 5);
        pen.lineTo(x + 5, y + 4);
        pen.lineTo(x - 5, y + 4);
      } else pen.arc(x, y, status === "OK" ? 2.5 : 3.5, 0, 7);
      if (status === "UNKNOWN") pen.stroke();
      else pen.fill();
    },
    text(pen, text, x, y, room, colour, keepEnd = false, ground = "") {
      if (room < 14) return;
      let shown = text;
      if (pen.measureText(shown).width > room) {
        let keep = Math.max(1, Math.floor(room / 6.2) - 1);
        const cut = () => (keepEnd ? `…${text.slice(-keep)}` : `${text.slice(0, keep)}…`);
        while (keep > 1 && pen.measureText(cut()).width > room) keep--;
        if (keep < 2) return;
        shown = cut();
      }
      if (ground) {
        pen.fillStyle = this.colour(ground);
        pen.fillRect(x - 3, y - 7, pen.measureText(shown).width + 6, 13);
      }
      pen.fillStyle = this.colour(colour);
      pen.fillText(shown, x, y);
    },
    // The selected instant, with what follows it dimmed.
    head(pen, height) {
      if (this.instant === null) return;
      const x = this.x(this.instant);
      if (x < this.gutter || x > this.width) return;
      pen.fillStyle = this.colour("--surface");
      pen.globalAlpha = 0.55;
      pen.fillRect(x, 0, this.width - x, height);
      pen.globalAlpha = 1;
      pen.fillStyle = this.colour("--accent");
      pen.fillRect(x - 1, 0, 2, height);
    },
    ends(incident) {
      const left = this.x(incident.from), right = this.x(incident.to);
      return [left, Math.max(left + 3, right)];
    },
    // Returns what is under the pointer: {lines, open}.
    under(event, part) {
      const box = this.$refs[part].getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
      const { lanes, spans, clients, first, marks, rebalances, group, from, bands } = this.model;
      const time = this.time(x), near = ((this.data.to - this.data.from) / this.width) * 5;
      const described = (i) => ({ lines: [i.text, i.open ? text("{time}, still open", { time: clock(i.from, true) }) : text("{time}, for {duration}", { time: clock(i.from, true), duration: duration(i.to - i.from) })], open: i.link });
      const holds = (i) => i.from - near <= time && time <= i.to + near;
      if (part === "head") {
        const row = Math.floor((y - AXIS) / ROW), rebalance = rebalances.find(([start]) => Math.abs(start - time) < near);
        if (row >= this.headRows && rebalance) return { lines: [text("Rebalance: {cause}", { cause: rebalance[2] }), clock(rebalance[0], true)], open: rebalance[3] };
        const incident = group.find((i) => i.row === row && holds(i));
        return incident ? described(incident) : { lines: [clock(time, true)] };
      }
      if (part === "overview") {
        const at = this.laneAt(event);
        return { lines: [lanes[at], bands.find((band) => band.lanes.includes(at)).name, clock(time, true)], time: null };
      }
      const below = y + this.$refs.scroll.scrollTop, row = this.rows[rowAt(this.rows, below)];
      if (!row || below >= row.y + row.height) return null;
      if (row.fold) return { lines: [row.fold.name, row.fold.facts, clock(time, true)] };
      const { lane } = row;
      if (x < this.gutter || below < row.bar) return { lines: [lanes[lane]], time: null };
      const incident = below - row.bar > LANE - 7 && below - row.bar < LANE && marks[lane].find(holds);
      if (incident) return described(incident);
      const at = first[lane].find((i) => from + spans[i + 1] <= time && time < from + spans[i + 2]);
      const lines = [lanes[lane], clock(time, true)];
      if (at !== undefined) {
        const owner = spans[at + 3] < 0 ? text("unassigned") : clients[spans[at + 3]].id;
        lines.splice(1, 0, text("{owner}, {duration} in this period", { owner, duration: duration(spans[at + 2] - spans[at + 1]) }));
      }
      return { lines, client: at === undefined ? -1 : spans[at + 3] };
    },
    over(event, part) {
      if (event.buttons === 1 && event.pointerType === "mouse" && part !== "overview") return this.press(event, part, true);
      const found = this.under(event, part), box = this.$el.getBoundingClientRect();
      this.point(this.time(event.clientX - this.$refs[part].getBoundingClientRect().left));
      if (this.model.byMeaning) this.mark(found?.client ?? -1);
      if (this.$refs[part]) this.$refs[part].style.cursor = found?.open || part === "overview" ? "pointer" : "crosshair";
      this.tip = found && { lines: found.lines, x: Math.min(event.clientX - box.left + 14, this.width - 230), y: event.clientY - box.top + 16 };
    },
    press(event, part, dragging = false) {
      const found = this.under(event, part);
      if (!found || found.time === null) return;
      if (found.open && !dragging) location.href = found.open;
      else this.choose(this.time(event.clientX - this.$refs[part].getBoundingClientRect().left));
    },
  },
};
