"""Renderers: each can draw any document and knows nothing about specific sections."""
