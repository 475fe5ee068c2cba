"""Renderers: each draws any document, and knows no section by name."""
