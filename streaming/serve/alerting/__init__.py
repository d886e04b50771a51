"""Alerts: follow the incidents by table version, decide which channels to notify, and deliver at least once.

`run` joins the parts. `dispatcher` decides which channels are notified of a transition, `pack` what goes in one
message; both use `state`, the folded rows of `alert_deliveries`. All three are pure and receive the time as an
argument. `follow` and `ledger` read and write the tables, `deliver` and `channels` send the messages.
"""
