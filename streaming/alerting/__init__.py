"""Alerts: follows the incidents by table version, decides whom to tell, and tells them at least once.

`run` joins the parts. `decide` says who is told of a transition, `pack` what goes in one message, and `book` is what
both rest on: the rows of `alert_deliveries`, folded. All three are pure, and the clock is given to them. `follow` and
`ledger` read and write the tables, `deliver` and `channels` send.
"""
