"""The server of the Model Context Protocol: the typed questions of `streaming.queries` as read-only tools."""
