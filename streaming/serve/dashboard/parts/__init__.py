"""What pages have in common: frame, controls, templates, live updates, tables in pages and orders, times, colours."""
