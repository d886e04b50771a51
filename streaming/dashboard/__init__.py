"""The dashboard's pages: NiceGUI on the web server of `streaming.web`.

A page asks the questions of `streaming.queries` through the server's `Store`, renders the answers as HTML with the
templates beside this file, and asks again when the store's version rises. One file a page or component.
"""
