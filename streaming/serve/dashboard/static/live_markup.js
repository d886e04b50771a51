// Shows HTML from the server. Focus, scroll positions and what is typed in a field are kept when it changes: a page used
// with a keyboard or a screen reader must not jump or forget each time the tables have new rows.

const place = (node) => node?.id || node?.dataset?.do || node?.getAttribute?.("href") || (node?.name && [node.form?.id, node.name].join());
const ignored = (event) => event.stopImmediatePropagation();

export default {
  template: `<div @click="act"></div>`,
  props: { html: String },
  mounted() {
    this.$el.innerHTML = this.html;
  },
  watch: {
    html() {
      const focused = this.$el.contains(document.activeElement) ? place(document.activeElement) : null;
      const scrolled = [...this.$el.querySelectorAll("[data-scroll]")].map((node) => [node.dataset.scroll, node.scrollLeft]);
      const open = [...this.$el.querySelectorAll("details[open][id]")].map((node) => node.id);
      const typed = [...this.$el.querySelectorAll("input[name]:not([type=checkbox])")]
        .filter((node) => node.value !== node.defaultValue || node === document.activeElement)
        .map((node) => [[node.form?.id, node.name].join(), node.value, node.selectionStart]);
      // Chromium takes the removal of a field in which somebody types for the end of typing.
      this.$el.addEventListener("change", ignored, true);
      this.$el.innerHTML = this.html;
      this.$el.removeEventListener("change", ignored, true);
      for (const [name, left] of scrolled) {
        const node = this.$el.querySelector(`[data-scroll="${CSS.escape(name)}"]`);
        if (node) node.scrollLeft = left;
      }
      const fields = new Map([...this.$el.querySelectorAll("input[name]")].map((node) => [[node.form?.id, node.name].join(), node]));
      for (const [name, value, caret] of typed) {
        const node = fields.get(name);
        if (!node) continue;
        node.value = value;
        if (caret !== null) node.setSelectionRange(caret, caret);
      }
      for (const id of open) document.getElementById(id)?.setAttribute("open", "");
      if (focused) {
        [...this.$el.querySelectorAll("a, button, summary, input, select, [tabindex]")].find((node) => place(node) === focused)?.focus();
      }
    },
  },
  methods: {
    act(event) {
      const word = event.target.closest("[data-do]")?.dataset.do;
      if (word) this.$emit("do", word);
    },
  },
};
