"""The dashboard's pages: NiceGUI on the web server of `streaming.serve.web`.

A page runs the queries of `streaming.queries` through the server's `Store`, renders the results as HTML with the
templates beside this file, and repeats the queries when the store's version rises. Each page or component has one file.
"""
