"""The labels of lanes can be read, and each owner's colour has a name, also where no label fits into its lane."""

import re

from playwright.sync_api import expect

_DRAWN = """() => new Promise((done) => {
  const pen = CanvasRenderingContext2D.prototype, { fillText, stroke } = pen, drawn = [];
  pen.fillText = function (text, ...rest) { drawn.push(text); fillText.call(this, text, ...rest); };
  pen.stroke = function (...rest) { if (this.getLineDash().length) drawn.push("mark"); stroke.call(this, ...rest); };
  dispatchEvent(new Event("rw-theme"));
  setTimeout(() => { Object.assign(pen, { fillText, stroke }); done(drawn); }, 500);
})"""
"""Returns what the lanes draw, in order: texts, and the marks of rebalances."""


def test_labels_are_over_marks_and_the_legend_names_each_owner(open_page):
    page = open_page("/group/orders-group")
    page.locator(".lanes-body").wait_for()
    drawn = page.evaluate(_DRAWN)
    last_mark = len(drawn) - drawn[::-1].index("mark")
    labels = [text for text in drawn if re.match(r"orders-|ORDERED_QUEUE_STUCK", text)]
    assert len(labels) >= 8
    assert [text for text in drawn[last_mark:] if text in labels] == labels

    legend = page.get_by_role("list", name="Legend", exact=True)
    for name in ("orders-1", "orders-2", "orders-3"):
        expect(legend.get_by_role("listitem").filter(has_text=name).locator(".client")).to_have_attribute(
            "style", re.compile("--client-")
        )
