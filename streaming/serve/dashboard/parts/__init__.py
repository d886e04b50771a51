"""Parts that pages share: frame, controls, templates, live updates, tables in pages and orders, times, colours."""
