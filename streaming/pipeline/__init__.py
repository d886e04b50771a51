"""The path from the log to the tables: the Spark job, the rebuild of its tables, and the backtest of a policy."""
