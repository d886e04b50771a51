"""The path from the log to the tables: the Spark job, its rebuild after a change, and the backtest of a policy."""
