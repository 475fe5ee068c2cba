"""Where alerts are sent: lines, JSON lines, a webhook, Alertmanager. Each has its own thread (sender.py).

channel.py       what a channel is, and how sending can fail
queue.py         what is still to be sent; bounded
sender.py        a channel's thread: sends, retries, ends within a time limit
notifiers.py     all of them together, and their names on the command line
"""
