// Shows HTML from the server. Focus and scroll positions are kept when it changes: a page used with a keyboard or a
// screen reader must not jump each time the tables have new rows.

const place = (node) => node?.id || node?.dataset?.do || node?.getAttribute?.("href");

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
      this.$el.innerHTML = this.html;
      for (const [name, left] of scrolled) {
        const node = this.$el.querySelector(`[data-scroll="${CSS.escape(name)}"]`);
        if (node) node.scrollLeft = left;
      }
      for (const id of open) document.getElementById(id)?.setAttribute("open", "");
      if (focused) {
        [...this.$el.querySelectorAll("a, button, summary, [tabindex]")].find((node) => place(node) === focused)?.focus();
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
