"""Reports of findings: text, Markdown, HTML pages, images, JUnit XML.

Shows the results of the analysis and the verdict; judges and counts nothing itself. A report is a document
(document.py): sections/ builds it, render/ draws it.
"""
