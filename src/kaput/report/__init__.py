"""Findings for people and for CI: text, Markdown, pages, images, JUnit XML.

Shows what the analysis and the verdict found; computes nothing. A report is a document (document.py):
sections/ make it, render/ draw it.
"""
