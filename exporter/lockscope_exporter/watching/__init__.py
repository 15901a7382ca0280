"""Watching locks in a terminal: what changed between two looks, and a screen that shows both."""
