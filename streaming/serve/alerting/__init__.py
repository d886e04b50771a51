"""Alerts: follow the incidents by table version, decide which channels to notify, and deliver at least once.

`run` joins the parts. `dispatcher` decides which channels are notified of a transition, and packs what goes in one
message; `state` is the folded rows of `alert_deliveries` and `alert_controls`. Both are pure and receive the time as an
argument. `follow` reads and writes the tables, `deliver` and `channels` send the messages.
"""
