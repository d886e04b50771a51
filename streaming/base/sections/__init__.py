"""The sections of the settings, a file for each subject; `streaming.base.settings` reads and checks them together."""
