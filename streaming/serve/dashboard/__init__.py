"""The dashboard's pages: NiceGUI on the web server of `streaming.serve.web`.

`routes` has the addresses. A page (`pages/`) runs the queries of `streaming.queries` through the server's `Store`,
renders the results with the templates in `templates/`, and repeats the queries when the store's version rises. What
pages share is in `parts/`, the lanes of a group in `timeline/`, other pictures in `charts/`, and what a browser gets as
it is in `static/`.
"""
